"""The cost of records in bulk: columns, checks and retention per record, compared with the plain decoder, for every
codec; first use and memory.

Run: `python -m bench.micro_records`. Figures are CPU time of one core, the best of a few rounds; records have 100 bytes
including their overhead.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

from bench.sizes import sized
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.columns import COMPILED, check_records, decode_columns, retain
from trimaran.log.batches.records import RECORDS_BYTES_MAX, NewRecord, build_batch, decode_records
from trimaran.log.batches.records import records_bytes as body_of
from trimaran.log.codecs.compression import Compression

ROUNDS = sized(25, 1)
RECORDS = sized(10_000, 1_000)  # records of a batch of 1 MB, as of producers with large batches
SMALL_RECORDS = 10  # records of a batch of 1 KB; many such batches are decoded at once
TIME_MS = 1_700_000_000_000

FIRST_USE = """
import time, resource, os
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import NewRecord, build_batch
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
batch = BatchView(build_batch([NewRecord(b"k", b"v", 0)]))
before, began, cpu = rss(), time.perf_counter(), time.process_time()
from trimaran.log.batches.columns import decode_columns
decode_columns([batch])
wall, cpu = time.perf_counter() - began, time.process_time() - cpu
print(f"{wall * 1000:.1f} ms, {cpu * 1000:.1f} ms of CPU, {rss() - before:.1f} MiB")
"""


def best(action):
    """Returns the least CPU seconds of `action` over the rounds."""
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return min(times)


def made(count, compression, seed=1):
    """Returns values that compress by about a factor of three, like text."""
    rng = random.Random(seed)
    words = [rng.randbytes(6).hex() for _ in range(64)]
    records = []
    for i in range(count):
        value = " ".join(rng.choices(words, k=7)).encode()[:89]
        records.append(NewRecord(None, value, TIME_MS + i))
    return BatchView(memoryview(build_batch(records, compression=compression)))


def line(name, seconds, records):
    print(f"{name:34} {records / seconds / 1e6:8.2f} M records/s {seconds / records * 1e9:8.1f} ns")


def by_codec(codec):
    batch = made(RECORDS, codec)
    plain = best(lambda: decode_records(batch))
    bulk = best(lambda: decode_columns([batch]))
    alone = best(lambda: body_of(batch, RECORDS_BYTES_MAX))
    print(
        f"{codec.name.lower():8} plain {plain / RECORDS * 1e9:7.0f} ns/record, columns {bulk / RECORDS * 1e9:6.1f}, "
        f"of which decompression {alone / RECORDS * 1e9:6.1f}: {plain / bulk:6.1f} x"
    )


def main():
    print(f"compiled: {COMPILED}")
    batch = made(RECORDS, Compression.NONE)
    body = body_of(batch)
    small = [made(SMALL_RECORDS, Compression.NONE)] * (RECORDS // SMALL_RECORDS)
    keep = bytes(i % 2 for i in range(RECORDS))
    print(f"{batch.size / RECORDS:.0f} bytes a record, {len(body)} of a batch")
    line("columns", best(lambda: decode_columns([batch])), RECORDS)
    line("columns, 1,000 batches at once", best(lambda: decode_columns(small)), RECORDS)
    line("checks", best(lambda: check_records(body, RECORDS, TIME_MS)), RECORDS)
    line("every second retained", best(lambda: retain(body, RECORDS, TIME_MS, keep)), RECORDS)
    new_base = TIME_MS - 1
    line(
        "the same, deltas written anew",
        best(lambda: retain(body, RECORDS, TIME_MS, keep, new_base_timestamp=new_base)),
        RECORDS,
    )
    for codec in Compression:
        by_codec(codec)
    first = subprocess.run(
        [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True, cwd=os.curdir
    )
    print(f"first use, import included: {first.stdout.strip()}")


if __name__ == "__main__":
    main()
