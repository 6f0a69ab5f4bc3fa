"""Microseconds per append and per read slice of one partition's log, compared with CRC and write.

Run: `python -m bench.micro_log [DIRECTORY]`. Figures are CPU time without fsync, the best of a few rounds.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import crc32c

from bench.sizes import sized
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.config import LogConfig
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.validation.validate import ProduceRules, validate_produced

ROUNDS = sized(5, 1)
REPEATS_MAX = sized(2000, 20)
CASES = [
    ("1 x 1 KiB", 1, 1000),
    ("16 x 1 KiB", 16, 960),
    ("160 x 100 B", 160, 90),
    ("10,000 x 100 B", 10_000, 90),
    ("1024 x 1 KiB", 1024, 1010),
]


def best(action, repeats):
    """Returns the least mean time of `action` in µs over the rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(repeats):
            action()
        times.append((time.process_time() - begin) / repeats)
    return min(times) * 1e6


def open_log(directory):
    config = LogConfig(segment_bytes=1 << 30, message_timestamp_after_max_ms=1 << 60)
    directory.mkdir()
    return PartitionLog.open(directory, config, LastRun(clean_shutdown=True), now_ms=0)


def measure(root, name, count, value_bytes, idempotent):
    records = [NewRecord(None, b"v" * value_bytes, 1_700_000_000_000 + i) for i in range(count)]
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0} if idempotent else {}
    frame = memoryview(bytearray(build_batch(records, **fields)))
    log = open_log(root / f"bench-{len(os.listdir(root))}")
    rules = ProduceRules.of(log.config)
    sequence = 0

    def append():
        nonlocal sequence
        frame[0:8] = bytes(8)
        views = validate_produced(frame, rules, now_ms=0)
        if idempotent:
            view = views[0]
            view.base_sequence = sequence
            sequence += count
            log.producers.validate(view)
        log.append_as_leader(frame, views, leader_epoch=0, now_ms=0)

    repeats = max(20, min(REPEATS_MAX, (32 << 20) // len(frame)))
    whole = best(append, repeats)
    file = log.files.open(root / f"plain-{len(os.listdir(root))}", create=True)
    position = 0

    def plain():
        nonlocal position
        crc32c.crc32c(frame[21:])
        os.pwrite(file.fileno(), frame, position)
        position += len(frame)

    alone = best(plain, repeats)
    end = log.log_end_offset
    tail = end - count
    tail_read = best(lambda: log.read(tail, 1 << 20, upto_offset=end, min_one=True), REPEATS_MAX)
    offsets = iter(range(0, end - count, max(1, (end // 1999) or 1)))
    old_read = best(
        lambda: log.read(next(offsets, 0), 1 << 20, upto_offset=end, min_one=True),
        min(REPEATS_MAX, 300),
    )
    print(
        f"{name:14} {'idempotent' if idempotent else '':10} {len(frame):8} B  append {whole:7.1f} µs "
        f"({whole / len(frame) * 1e3:.2f} s/GB), "
        f"CRC and write alone {alone:7.1f}, ours {whole - alone:6.1f};  read slice: tail {tail_read:5.1f} µs, "
        f"old {old_read:5.1f}"
    )
    check = log.read_bytes(0, 1, upto_offset=end)
    assert sum(view.count for view in iter_batches(check)) == count
    log.close(clean=False)


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        for name, count, value_bytes in CASES:
            for idempotent in (False, True):
                measure(Path(folder), name, count, value_bytes, idempotent)


if __name__ == "__main__":
    main()
