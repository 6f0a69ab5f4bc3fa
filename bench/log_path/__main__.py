"""The path of an append and of a read through a log, ours and Apache Kafka's in turn, without network: MB/s and CPU seconds a GB.

Run: `./dev bench log-path [--seconds S] [WORD …]`, WORDs choose cases. One thread appends the same batch of about 16 KiB (Kafka's
`batch.size`) again and again: every record checked, offsets assigned, one write into the page cache, indexes. Kafka's part is its
`UnifiedLog` in a warmed-up JVM (`LogPath.java`), CPU of the whole process on both sides. `read` is the look-up that gives a slice of the
file; no byte is copied by it on either side. `recover` reads, checks and indexes a log of 256 MB as after a crash.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.results import Figure, print_table
from log.batch import NewRecord, build_batch
from log.codecs import Compression
from log.config import LogConfig
from log.partition_log import PartitionLog
from log.validate import ProduceRules, validate_produced
from tests.interop import apache_kafka

PROGRAM = Path(__file__).with_name("LogPath.java")
SIZES = {"100 B": (90, 160), "1 KiB": (1010, 16)}
RECOVERED_BYTES = 256 << 20
CASES = [(size, codec) for size in SIZES for codec in Compression]
CONFIG = LogConfig(segment_bytes=1 << 30, message_timestamp_after_max_ms=1 << 60, retention_ms=-1)
STEP = 104_729  # a prime, so that reads are all over the log
Line = tuple[float, ...]


def batch_of(size: str, codec: Compression) -> bytes:
    """Half of each value is random, half repeats: codecs have work and some success."""
    value_bytes, count = SIZES[size]
    prng = random.Random(7)
    now_ms = time.time_ns() // 1_000_000
    records = [
        NewRecord(None, prng.randbytes(value_bytes // 2) + b"v" * (value_bytes // 2), now_ms + i)
        for i in range(count)
    ]
    return build_batch(records, compression=codec)


def open_log(directory: Path, *, clean: bool) -> PartitionLog:
    directory.mkdir(parents=True, exist_ok=True)
    return PartitionLog.open(directory, CONFIG, recovery_point=0, clean_shutdown=clean, now_ms=0)


def appended(log: PartitionLog, batch: bytes, seconds: float, bytes_max: float = 1 << 62) -> int:
    rules = ProduceRules.of(log.config)
    frame = memoryview(bytearray(batch))
    end, total = time.perf_counter() + seconds, 0
    while time.perf_counter() < end and total < bytes_max:
        for _ in range(50):
            frame[0:8] = bytes(8)
            views = validate_produced(frame, rules, now_ms=0)
            records = memoryview(views[0].buffer)
            log.append_as_leader(records, views, leader_epoch=0, now_ms=0)
            total += len(batch)
    return total


def our_append(directory: Path, batch: bytes, seconds: float) -> Line:
    """Seconds, CPU seconds, bytes, µs a read."""
    log = open_log(directory, clean=True)
    appended(log, batch, seconds / 2)
    log.truncate_fully_and_start_at(0)
    begin, cpu = time.perf_counter(), time.process_time()
    total = appended(log, batch, seconds)
    took, used = time.perf_counter() - begin, time.process_time() - cpu
    read_us = our_read(log, seconds / 2)
    log.close(clean=False)
    shutil.rmtree(directory)
    return took, used, total, read_us


def our_read(log: PartitionLog, seconds: float) -> float:
    offsets, at, count = log.log_end_offset, 0, 0
    end, cpu = time.perf_counter() + seconds, time.process_time()
    while time.perf_counter() < end:
        log.read(at, 1 << 20, upto_offset=offsets, min_one=True)
        at, count = (at + STEP) % offsets, count + 1
    return (time.process_time() - cpu) * 1e6 / count


def our_recovery(directory: Path) -> Line:
    begin, cpu = time.perf_counter(), time.process_time()
    log = open_log(directory, clean=False)
    took, used = time.perf_counter() - begin, time.process_time() - cpu
    size = log.size_bytes
    log.close(clean=False)
    return took, used, size


class Kafka:
    """The JVM; commands by its standard input."""

    def __init__(self) -> None:
        command = ["java", "-Xmx1g", "-cp", apache_kafka.class_path(), str(PROGRAM)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words: object) -> Line:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        while True:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("the JVM has ended")
            try:
                return tuple(map(float, line.split()))
            except ValueError:  # a line of its log
                continue

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(30)


def figures(system: str, case: str, line: Line) -> list[Figure]:
    took, used, total, read_us = line
    return [
        Figure("append", case, "MB/s", "higher", system, total / took / 1e6),
        Figure("append", f"{case}: CPU", "s/GB", "lower", system, used / total * 1e9),
        Figure("read", case, "µs", "lower", system, read_us),
    ]


def measure(folder: Path, seconds: float, words: list[str]) -> list[Figure]:
    kafka = None if apache_kafka.why_not() else Kafka()
    found: list[Figure] = []
    for number, (size, codec) in enumerate(CASES):
        case = f"{size} {codec.name.lower()}"
        if words and not all(word in case for word in words):
            continue
        print(f"bench: {case}", file=sys.stderr, flush=True)
        batch = batch_of(size, codec)
        file = folder / "batch"
        file.write_bytes(batch)
        found += figures("ours", case, our_append(folder / f"ours-{number}", batch, seconds))
        if kafka is not None:
            line = kafka.ask("append", folder / f"kafka-{number}", file, seconds)
            found += figures("kafka", case, line)
            shutil.rmtree(folder / f"kafka-{number}", ignore_errors=True)
    found += recovery(folder, kafka)
    if kafka is not None:
        kafka.close()
    return found


def recovery(folder: Path, kafka: Kafka | None) -> list[Figure]:
    """One log of ours for both; each gets its own copy without indexes. Twice each, the better counts: the JVM warms up."""
    source = folder / "source-0"
    log = open_log(source, clean=True)
    appended(log, batch_of("1 KiB", Compression.NONE), 600, RECOVERED_BYTES)
    log.flush()
    log.close(clean=False)
    for path in [*source.glob("*.index"), *source.glob("*.timeindex"), *source.glob("*.snapshot")]:
        path.unlink()
    found = []
    for system in ("ours", "kafka"):
        if system == "kafka" and kafka is None:
            continue
        lines = []
        for turn in range(2):
            copied = folder / f"{system}{turn}-0"
            shutil.copytree(source, copied)
            if system == "ours":
                lines.append(our_recovery(copied))
            elif kafka is not None:
                lines.append(kafka.ask("recover", copied))
            shutil.rmtree(copied, ignore_errors=True)  # Kafka's scheduler may still write there
        took, used, size = min(lines)
        found += [
            Figure("recovery", "1 KiB", "MB/s", "higher", system, size / took / 1e6),
            Figure("recovery", "1 KiB: CPU", "s/GB", "lower", system, used / size * 1e9),
        ]
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench log-path", description=__doc__)
    parser.add_argument("words", nargs="*", help="choose cases: a size, a codec")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    given = parser.parse_args(arguments)
    base = Path(os.environ.get("TRIMARAN_BENCH_DIR", tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(dir=base) as folder:
        print_table(measure(Path(folder), given.seconds, given.words))


if __name__ == "__main__":
    main()
