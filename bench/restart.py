"""How long a broker with many partitions takes to stop and to start again, and what it holds in memory.

Run: `python -m bench.restart [PARTITIONS] [DIRECTORY]`. A real process with both roles; every partition has a directory with a batch in it; the
times are from the signal to the end, and from the start to the line that says that it serves.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from log.batch import NewRecord, build_batch, iter_batches
from log.config import LogConfig
from log.directory import LogDirectory
from quorum.storage import format_paths, random_uuid
from wire.blocking import BlockingConnection
from wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from wire.messages.metadata import MetadataRequest

PARTITIONS_OF_A_TOPIC = 100


def free_port() -> int:
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write_properties(root: Path) -> tuple[Path, int]:
    broker, controller = free_port(), free_port()
    keys = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(root / "data"),
        "offsets.topic.replication.factor": "1",
    }
    path = root / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return path, broker


def start(properties: Path) -> tuple[subprocess.Popen[str], str]:
    """The process, and the seconds until it serves: of the clock, and of a processor, which other processes do not lengthen."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(properties)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "KafkaServer" in line and "started" in line:
            return (
                process,
                f"{time.perf_counter() - begun:6.2f} s {cpu_seconds(process):6.2f} s CPU",
            )
    raise SystemExit("the node did not start")


def stop(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> float:
    begun = time.perf_counter()
    process.send_signal(number)
    process.communicate()
    return time.perf_counter() - begun


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(process: subprocess.Popen[str]) -> float:
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def create_topics(port: int, topics: int) -> dict[str, bytes]:
    """Names and ids."""
    with contextlib.closing(BlockingConnection(("127.0.0.1", port))) as client:
        for number in range(topics):
            topic = CreatableTopic(
                name=f"topic-{number}",
                num_partitions=PARTITIONS_OF_A_TOPIC,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), timeout=60)
        answer = client.call(MetadataRequest(topics=None))
    return {topic.name: topic.topic_id for topic in answer.topics if topic.name}


def fill(path: Path, topics: dict[str, bytes]) -> None:
    """A batch in every partition, as if the broker had written it and stopped."""
    directory = LogDirectory(path)
    offsets = {}
    for topic, topic_id in topics.items():
        for index in range(PARTITIONS_OF_A_TOPIC):
            log = directory.create_log(topic, index, topic_id, LogConfig())
            batch = memoryview(bytearray(build_batch([NewRecord(None, b"value", 1000)])))
            log.append_as_leader(batch, list(iter_batches(batch)), leader_epoch=0, now_ms=1000)
            offsets[topic, index] = 1
    directory.close(broker_epoch=0, high_watermarks=offsets)


def main() -> None:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        properties, port = write_properties(Path(name))
        format_paths([Path(name) / "data"], random_uuid(), 1)
        process, seconds = start(properties)
        print(f"start, nothing there          {seconds} {rss_mb(process):7.1f} MB")
        topics = create_topics(port, partitions // PARTITIONS_OF_A_TOPIC)
        print(f"{partitions} partitions made              {rss_mb(process):7.1f} MB")
        print(f"stop                          {stop(process):6.2f} s", flush=True)
        fill(Path(name) / "data", topics)
        for what, number in (("clean", signal.SIGTERM), ("crashed", signal.SIGKILL)):
            process, seconds = start(properties)
            print(f"start                         {seconds} {rss_mb(process):7.1f} MB")
            print(f"stop, {what:8}                {stop(process, number):6.2f} s")
        process, seconds = start(properties)
        print(f"start after the crash         {seconds} {rss_mb(process):7.1f} MB")
        stop(process)


if __name__ == "__main__":
    main()
