"""CPU microseconds of an offset lookup in the index of a segment, by the segment's size; the first one loads the index.

Run: `python -m bench.index_lookup`. There is an entry for each 4 KiB, the default; no batch is read.
"""

from __future__ import annotations

import random
import struct
import tempfile
import time
from pathlib import Path

from bench.sizes import sized
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.segments.index import OffsetIndex

LOOKUPS = sized(2000, 20)
SEGMENT_MEGABYTES = sized((1, 16, 128, 1024), (1, 16))
INTERVAL_BYTES = 4096


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for megabytes in SEGMENT_MEGABYTES:
            entries = (megabytes << 20) // INTERVAL_BYTES
            path = Path(name) / f"{megabytes:020d}.index"
            path.write_bytes(
                b"".join(struct.pack(">ii", i * 10, i * INTERVAL_BYTES) for i in range(1, entries))
            )
            index = OffsetIndex(path, REAL_FILES, created=False)
            begun = time.process_time()
            index.floor(5)
            loaded = time.process_time()
            for _ in range(LOOKUPS):
                index.floor(random.randrange(entries * 10))
            each = (time.process_time() - loaded) / LOOKUPS
            print(
                f"{megabytes:5} MB: first {(loaded - begun) * 1e3:6.1f} ms, then {each * 1e6:6.1f} us"
            )


if __name__ == "__main__":
    main()
