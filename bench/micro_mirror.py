"""The ZooKeeper mirror against a real ZooKeeper: the first filling, one change, changes beside verifications, a burst.

Run: `python -m bench.micro_mirror [DIRECTORY]`. The metadata come from this process, so that only ZooKeeper and the
mirror are measured; CPU is that of the mirror. The directory is for ZooKeeper: its disk determines the latency.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import trio

from bench.sizes import sized
from tests.zkcompat import build
from tests.zkcompat.rig import Source, running, topics
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

LIMIT_SECONDS = 600.0
SESSION_MS = 40_000
CHANGES = sized(400, 20)
PAUSE_SECONDS = sized(0.05, 0.005)  # the pause between changes, in which verifications run
BURST_TOPICS = sized(5_000, 50)
TOPICS, PARTITIONS = sized(1_000, 20), sized(100, 10)
VERIFIED_TOPICS, VERIFIED_PARTITIONS = sized(500, 20), sized(50, 10)
BATCH_RECORDS = 20
TOPIC = (1).to_bytes(16, "big")


async def shown(mirror, source):
    with trio.fail_after(LIMIT_SECONDS):
        await mirror.wait_status(
            lambda s: s.state == "in step" and s.published_offset == source.offset
        )


async def fill(connect):
    source = Source(build.broker(1), *topics(TOPICS, partitions=PARTITIONS))
    begin, cpu = time.monotonic(), time.process_time()
    async with running(connect, source, session_timeout_ms=SESSION_MS) as mirror:
        await shown(mirror, source)
        took, spent = time.monotonic() - begin, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"{TOPICS * PARTITIONS:,} partitions, {mirror.status.writes} znodes: {took:.1f} s, CPU {spent:.1f} s, "
            f"peak {peak} MiB with the image"
        )
        await changes(mirror, source, PARTITIONS, 0.0, "one change")


async def beside_verifications(connect):
    source = Source(build.broker(1), *topics(VERIFIED_TOPICS, partitions=VERIFIED_PARTITIONS))
    options = {"session_timeout_ms": SESSION_MS, "verify_interval_seconds": 2.0}
    async with running(connect, source, **options) as mirror:
        await shown(mirror, source)
        await changes(
            mirror,
            source,
            VERIFIED_PARTITIONS,
            PAUSE_SECONDS,
            f"the same, {mirror.status.writes:,} znodes verified each 2 s",
        )
        await burst(mirror, source)


async def changes(mirror, source, partitions, pause, what):
    """Measures the time from a record to its znode."""
    times = []
    for number in range(CHANGES):
        begin = time.monotonic()
        recovery = number // partitions % 2
        source.say(
            build.change(
                TOPIC, number % partitions, isr=[1], leader=1, leader_recovery_state=recovery
            )
        )
        await shown(mirror, source)
        times.append((time.monotonic() - begin) * 1e3)
        await trio.sleep(pause)
    times.sort()
    print(f"{what}: p50 {times[CHANGES // 2]:.1f} ms, p99 {times[CHANGES * 99 // 100]:.1f} ms")


async def burst(mirror, source):
    records = []
    for number in range(BURST_TOPICS):
        topic_id = (100_000 + number).to_bytes(16, "big")
        records += [build.topic(f"b{number}", topic_id), build.partition(topic_id, 0, [1, 2])]
    begin = time.monotonic()
    for at in range(0, len(records), BATCH_RECORDS):
        source.say(*records[at : at + BATCH_RECORDS])
    await shown(mirror, source)
    print(f"{BURST_TOPICS} topics at once: shown after {time.monotonic() - begin:.1f} s")


def main(directory: Path) -> None:
    server = start_zookeeper(directory / "zookeeper")
    try:
        trio.run(fill, f"{server.connect}/fill")
        trio.run(beside_verifications, f"{server.connect}/verify")
    finally:
        server.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else temporary))
