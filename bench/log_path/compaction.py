"""A log to be compacted, and one round of our cleaner over it.

Run: `python -m bench.log_path.compaction DIRECTORY`: prints seconds, CPU seconds, bytes of dirty log, MiB of memory
above that of the open log, bytes left. Both passes count, as in the line that Kafka's cleaner logs.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import time
from pathlib import Path

from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.offset_map import COMPILED
from trimaran.log.compaction.planning import dirt_of, plan_round
from trimaran.log.config import LogConfig
from trimaran.log.partitions.partition_log import PartitionLog

CONFIG = LogConfig(segment_bytes=64 << 20, compacts=True, deletes=False)
TIME_MS = 1_700_000_000_000
KEY_BYTES = 12


def write(directory: Path, size_bytes: int, value_bytes: int, codec: Compression) -> None:
    """Writes sealed segments and a last record, in batches of 16 KiB; the newest values of all keys are a tenth of it.

    Half of each value is random and half repeats, so that codecs can compress them to some extent.
    """
    directory.mkdir()
    log = _open(directory)
    count = max(1, (16 << 10) // (value_bytes + KEY_BYTES + 8))
    keys = max(1, size_bytes // (value_bytes + KEY_BYTES) // 10)
    rng = random.Random(1)
    half = value_bytes // 2
    values = [rng.randbytes(half) + b"v" * (value_bytes - half) for _ in range(64)]
    number = 0
    while log.size_bytes < size_bytes:
        records = [
            NewRecord(b"key-%08d" % (n * 7919 % keys), values[n % 64], TIME_MS + n)
            for n in range(number, number + count)
        ]
        _append(log, records, codec)
        number += count
    log.roll(0)
    _append(log, [NewRecord(b"end", b"", TIME_MS)], Compression.NONE)
    log.close()


def _open(directory: Path) -> PartitionLog:
    return PartitionLog.open(directory, CONFIG, recovery_point=0, clean_shutdown=True, now_ms=0)


def _append(log: PartitionLog, records: list[NewRecord], codec: Compression) -> None:
    data = memoryview(bytearray(build_batch(records, compression=codec)))
    log.append_as_leader(data, list(iter_batches(data)), leader_epoch=0, now_ms=0)


def main() -> None:
    if not COMPILED:
        print("bench: the offset map is not compiled: these figures say little", file=sys.stderr)
    log = _open(Path(sys.argv[1]))
    # A broker has the producers in memory, as does Kafka's log before its cleaner begins.
    _ = log.producers
    dirt = dirt_of(log, cleaned_to=None, high_watermark=log.log_end_offset, now_ms=TIME_MS)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    cleaning = plan_round(
        log,
        dirt,
        limits=CleanerLimits(),
        map_key=os.urandom(16),
        now_ms=TIME_MS,
        pause=lambda _size: None,
    )
    for sources in cleaning.groups(cleaning.build_map()):
        cleaned = cleaning.clean(sources)
        assert log.replace_segments([source.segment for source in sources], cleaned)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
    print(seconds, cpu, dirt.dirty_bytes, memory_mib, log.size_bytes)


if __name__ == "__main__":
    main()
