"""The time that a broker with many partitions takes to stop and to start again, and its memory.

Run: `python -m bench.restart [PARTITIONS] [DIRECTORY] [--written N] [--mib SIZE]`. A real process with both roles, RF
1; every partition has a directory with a batch in it. It is stopped, and killed twice: once with nothing written, and
once while N partitions have SIZE MiB each above their recovery points, which are checked on first use. Times are from
the signal to the end of the process; and from its start until it prints that it serves, until every partition has its
leader, and until N partitions have responded to a request. CPU seconds are shown, too, which other processes do not
lengthen. The files are copies of those of one log: writing a hundred thousand files takes minutes on a busy file
system. This time is not measured.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.accounting import cpu_seconds, rss_mib
from bench.clusters import compile_packages
from bench.sizes import sized
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.disk.partition_metadata import FILE_NAME as PARTITION_METADATA
from trimaran.log.disk.partition_metadata import format_partition_metadata
from trimaran.quorum.formatting.storage import format_paths, random_uuid
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PARTITIONS_OF_A_TOPIC = 100
# The pause after an unsuccessful request. A response about one topic costs the broker half a millisecond, so repeated
# requests for all topics would slow it down.
PAUSE_SECONDS = 0.02
# A node that prints nothing for this time is considered to hang.
START_SECONDS_MAX = 300.0
# The timeout of a request; producing a mebibyte takes milliseconds, more on a busy machine.
RESPONSE_SECONDS_MAX = 60.0
BATCH_BYTES = 1 << 19
LATEST = -1


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
        # An hour, so that all written data stays above the recovery points, however long writing takes.
        "replica.high.watermark.checkpoint.interval.ms": "3600000",
    }
    path = root / "server.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return path, broker


class Moment(NamedTuple):
    """Times since the start of the process."""

    seconds: float
    cpu_seconds: float

    def __str__(self) -> str:
        return f"{self.seconds:6.2f} s {self.cpu_seconds:6.2f} s CPU"


class Node:
    """A process with both roles. Its output is read continuously, since a full pipe would block it."""

    def __init__(self, properties: Path) -> None:
        """Returns when it serves. Raises RuntimeError with its last lines if it does not start."""
        self._begun = time.perf_counter()
        command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(properties)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        atexit.register(self._process.kill)  # no effect on a process that has ended
        self._last_words: deque[str] = deque(maxlen=20)
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._started.wait(START_SECONDS_MAX) or self._process.poll() is not None:
            self._process.kill()
            raise RuntimeError("the node did not start:\n" + "".join(self._last_words))
        self.serves = self.now()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._last_words.append(line)
            if "KafkaServer" in line and "started" in line:
                self._started.set()
        self._started.set()  # it has ended

    def now(self) -> Moment:
        return Moment(time.perf_counter() - self._begun, cpu_seconds([self._process.pid]))

    @property
    def rss_mib(self) -> float:
        return rss_mib(self._process.pid)

    def files_open_below(self, directory: Path) -> int:
        """Counts the open files of partitions, without the metadata log."""
        found = 0
        for link in Path(f"/proc/{self._process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                parent = Path(os.readlink(link)).parent
                found += parent.parent == directory and not parent.name.startswith("__")
        return found

    def stop(self, number: int = signal.SIGTERM) -> float:
        begun = time.perf_counter()
        self._process.send_signal(number)
        self._process.wait()
        return time.perf_counter() - begun


def connect(port: int) -> contextlib.closing[BlockingConnection]:
    return contextlib.closing(BlockingConnection(("127.0.0.1", port)))


def create_topics(port: int, topics: int) -> dict[str, bytes]:
    """Creates topics; returns names and ids."""
    with connect(port) as client:
        for number in range(topics):
            topic = CreatableTopic(
                name=f"topic-{number}",
                num_partitions=PARTITIONS_OF_A_TOPIC,
                replication_factor=1,
                assignments=[],
                configs=[],
            )
            client.call(
                CreateTopicsRequest(topics=[topic], timeout_ms=60_000), timeout=RESPONSE_SECONDS_MAX
            )
        response = client.call(MetadataRequest(topics=None), timeout=RESPONSE_SECONDS_MAX)
    return {topic.name: topic.topic_id for topic in response.topics if topic.name}


def fill(path: Path, topics: Mapping[str, bytes]) -> None:
    """Puts a batch into every partition, as if the broker had written it and stopped."""
    keys = [(topic, index) for topic in topics for index in range(PARTITIONS_OF_A_TOPIC)]
    first, *others = keys
    directory = LogDirectory(path)
    log = directory.create_log(first, topics[first[0]], LogConfig())
    batch = memoryview(bytearray(build_batch([NewRecord(None, b"value", 1000)])))
    log.append_as_leader(batch, list(iter_batches(batch)), leader_epoch=0, now_ms=1000)
    directory.close(broker_epoch=0, high_watermarks={first: 1})
    source = path / f"{first[0]}-{first[1]}"
    files = {file.name: file.read_bytes() for file in source.iterdir()}
    for topic, index in others:
        files[PARTITION_METADATA] = format_partition_metadata(topics[topic])
        copy = path / f"{topic}-{index}"
        copy.mkdir()
        for name, content in files.items():
            (copy / name).write_bytes(content)
    directory = LogDirectory(path)
    directory.offsets.recovery_points.update(dict.fromkeys(keys, 1))
    directory.close(broker_epoch=0, high_watermarks=dict.fromkeys(keys, 1))
    os.sync()  # otherwise the node's own fsyncs would wait for all of these


def led_everywhere(port: int, topics: Iterable[str], node: Node) -> Moment:
    """Returns the time at which the last partition has a leader. Topics are polled one after the other until all their
    partitions have leaders.
    """
    with connect(port) as client:
        for topic in topics:
            while not _is_led(client, topic):
                time.sleep(PAUSE_SECONDS)
    return node.now()


def answered(port: int, count: int, node: Node) -> Moment:
    """Returns the time at which the broker has reported the ends of the first `count` partitions: their logs are open,
    checked after a crash, and their records committed.
    """
    asked = [
        ListOffsetsPartition(partition_index=number, timestamp=LATEST) for number in range(count)
    ]
    topic = ListOffsetsTopic(name="topic-0", partitions=asked)
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    with connect(port) as client:
        while True:
            response = client.call(request, timeout=RESPONSE_SECONDS_MAX)
            codes = {partition.error_code for partition in response.topics[0].partitions}
            if codes == {ErrorCode.NONE}:
                return node.now()
            if not codes <= {ErrorCode.NONE, ErrorCode.OFFSET_NOT_AVAILABLE}:
                raise RuntimeError(f"{count} partitions answered {codes}")
            time.sleep(PAUSE_SECONDS)


def _is_led(client: BlockingConnection, name: str) -> bool:
    wanted = [MetadataRequestTopic(name=name)]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    (topic,) = client.call(request, timeout=RESPONSE_SECONDS_MAX).topics
    led = sum(partition.leader_id >= 0 for partition in topic.partitions)
    return led == PARTITIONS_OF_A_TOPIC


def write_to(port: int, count: int, mib: int) -> None:
    """Puts `mib` MiB into each of `count` partitions of the first topic; all of it is fsynced when this returns."""
    value = os.urandom(BATCH_BYTES)
    with connect(port) as client:
        for index in range(count):
            for _ in range(max(1, (mib << 20) // BATCH_BYTES)):
                batch = build_batch([NewRecord(None, value, 1000)])
                data = TopicProduceData(
                    name="topic-0",
                    partition_data=[PartitionProduceData(index=index, records=batch)],
                )
                request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
                client.call(request, timeout=RESPONSE_SECONDS_MAX, version=9)


def say(what: str, value: object) -> None:
    print(f"{what:<60}{value}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=sized(20_000, 200))
    parser.add_argument("directory", nargs="?")
    parser.add_argument(
        "--written",
        type=int,
        default=sized(50, 3),
        choices=range(1, PARTITIONS_OF_A_TOPIC + 1),
        metavar="N",
    )
    parser.add_argument("--mib", type=int, default=sized(4, 1))
    arguments = parser.parse_args()
    compile_packages()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        properties, port = write_properties(Path(name))
        data = Path(name) / "data"
        format_paths([data], random_uuid(), 1)
        node = Node(properties)
        say("start, nothing there", f"{node.serves} {node.rss_mib:6.1f} MiB")
        topics = create_topics(port, arguments.partitions // PARTITIONS_OF_A_TOPIC)
        say(f"{arguments.partitions} partitions made", f"{node.now()} {node.rss_mib:6.1f} MiB")
        say("stop", f"{node.stop():6.2f} s")
        begun = time.perf_counter()
        fill(data, topics)
        say("(files prepared)", f"{time.perf_counter() - begun:6.2f} s")

        count = arguments.written

        def restart(what: str) -> Node:
            node = Node(properties)
            opened = node.files_open_below(data)
            say(
                f"start {what}: serves",
                f"{node.serves} {node.rss_mib:6.1f} MiB, {opened} files open",
            )
            say(f"start {what}: leads all", led_everywhere(port, topics, node))
            say(f"start {what}: {count} asked", answered(port, count, node))
            return node

        say("stop", f"{restart('after all was prepared').stop():6.2f} s")
        restart("after a clean stop").stop(signal.SIGKILL)
        node = restart("after a crash")
        write_to(port, count, arguments.mib)
        node.stop(signal.SIGKILL)
        written = f"{count} × {arguments.mib} MiB written"
        restart(f"after a crash, {written}").stop()


if __name__ == "__main__":
    main()
