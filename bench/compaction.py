"""Compaction of one and the same log by us and by Apache Kafka's cleaner: MB of log a second, CPU, memory.

Run: `python -m bench.compaction [MB]`. The log is written by us (the newest value of every key a tenth of it) and copied into a topic of a stopped
Kafka broker, which then starts and cleans it with its default settings, throttle off; its figures are those that it logs. Ours
is one round in a process of its own; both passes count, as in Kafka's line.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.results import Figure, print_table
from log.batch import NewRecord, build_batch, iter_batches
from log.codecs import Compression
from log.compaction.cleaning import CleanerLimits
from log.compaction.offset_map import COMPILED
from log.compaction.planning import dirt_of, plan_round
from log.config import LogConfig
from log.partition_log import PartitionLog
from tests.interop import apache_kafka

CONFIG = LogConfig(segment_bytes=64 << 20, compacts=True, deletes=False)
CASES = (("100 B", 84, 160, Compression.NONE), ("1 KiB", 1000, 16, Compression.NONE))
CASES += (("100 B zstd", 84, 160, Compression.ZSTD),)
TIME_MS = 1_700_000_000_000
WAIT_SECONDS_MAX = 300


def write(
    directory: Path, megabytes: int, value_bytes: int, count: int, codec: Compression
) -> None:
    """Sealed segments and a last record; values of half random bytes, so that codecs have work and some success."""
    directory.mkdir()
    log = PartitionLog.open(directory, CONFIG, recovery_point=0, clean_shutdown=True, now_ms=0)
    keys = max(1, megabytes * 1_000_000 // (value_bytes + 16) // 10)
    filler = [
        os.urandom(value_bytes // 2) + b"v" * (value_bytes - value_bytes // 2) for _ in range(64)
    ]
    number = 0
    while log.size_bytes < megabytes * 1_000_000:
        records = [
            NewRecord(
                b"key-%08d" % ((number + i) * 7919 % keys), filler[i % 64], TIME_MS + number + i
            )
            for i in range(count)
        ]
        data = memoryview(bytearray(build_batch(records, compression=codec)))
        log.append_as_leader(data, list(iter_batches(data)), leader_epoch=0, now_ms=0)
        number += count
    log.roll(0)
    data = memoryview(bytearray(build_batch([NewRecord(b"end", b"", TIME_MS)])))
    log.append_as_leader(data, list(iter_batches(data)), leader_epoch=0, now_ms=0)
    log.close()


def clean(directory: Path) -> None:
    """One round; prints seconds, CPU seconds, MB of dirty log, memory in MiB above that of the open log."""
    log = PartitionLog.open(directory, CONFIG, recovery_point=0, clean_shutdown=True, now_ms=0)
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
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
    print(seconds, cpu, dirt.dirty_bytes / 1e6, memory, log.size_bytes / 1e6)


def ours(source: Path, name: str, folder: Path) -> list[Figure]:
    shutil.copytree(source, folder / "ours-0")
    done = subprocess.run(
        [sys.executable, "-m", "bench.compaction", "--clean", str(folder / "ours-0")],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, cpu, megabytes, memory, left = map(float, done.stdout.split())
    shutil.rmtree(folder / "ours-0")
    return [
        Figure(
            "compaction", f"{name}: log processed", "MB/s", "higher", "ours", megabytes / seconds
        ),
        Figure("compaction", f"{name}: CPU", "s/GB", "lower", "ours", cpu / megabytes * 1000),
        Figure("compaction", f"{name}: memory above the log's", "MiB", "lower", "ours", memory),
        Figure("compaction", f"{name}: left of {megabytes:.0f} MB", "MB", "lower", "ours", left),
    ]


def kafkas(source: Path, name: str, folder: Path) -> list[Figure]:
    """Its own log line; its offset map of 128 MiB and buffers are allocated at the start, whatever the log."""
    settings = {"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "100"}
    with apache_kafka.running(folder / "kafka", controllers=0, settings=settings) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        config = {"cleanup.policy": "compact", "segment.bytes": str(CONFIG.segment_bytes)}
        [made] = admin.create_topics([NewTopic("life", 1, 1, config=config)]).values()
        made.result(30)
        kafka.stop()
        node = kafka.nodes[0]
        target = node.directory / "life-0"
        for path in target.iterdir():
            if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
                path.unlink()
        for path in source.iterdir():
            if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
                shutil.copy(path, target)
        (node.directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
        kafka.settings["log.cleaner.enable"] = "true"
        kafka.write_properties(node)
        output = kafka.directory / f"{node.id}.log"
        kafka.start()
        text = _wait_for(output, r"cleaned log life-0")
        time.sleep(1)
        left = sum(path.stat().st_size for path in target.glob("*.log")) / 1e6
        kafka.stop()
    found = re.search(
        r"cleaned log life-0.*?([\d,.]+) MB of log processed in ([\d,.]+) seconds \(([\d,.]+) MB/sec\)",
        text,
        re.DOTALL,
    )
    assert found, text[-3000:]
    speed = float(found.group(3).replace(",", "")) * 1.048576
    shutil.rmtree(folder / "kafka")
    megabytes = sum(path.stat().st_size for path in source.glob("*.log")) / 1e6
    return [
        Figure("compaction", f"{name}: log processed", "MB/s", "higher", "kafka", speed),
        Figure("compaction", f"{name}: left of {megabytes:.0f} MB", "MB", "lower", "kafka", left),
    ]


def _wait_for(output: Path, pattern: str) -> str:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while time.monotonic() < deadline:
        text = output.read_text(errors="replace")
        found = re.search(pattern, text)
        if found and "MB/sec" in text[found.start() :]:
            time.sleep(0.5)
            return output.read_text(errors="replace")
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} in {output}")


def main() -> None:
    if sys.argv[1:2] == ["--clean"]:
        clean(Path(sys.argv[2]))
        return
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    if not COMPILED:
        print(
            "bench: the offset map is not compiled here: these figures say little", file=sys.stderr
        )
    figures: list[Figure] = []
    for name, value_bytes, count, codec in CASES:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source-0"
            write(source, megabytes, value_bytes, count, codec)
            figures += ours(source, name, Path(folder))
            if apache_kafka.why_not() is None:
                figures += kafkas(source, name, Path(folder))
    print_table(figures)


if __name__ == "__main__":
    main()
