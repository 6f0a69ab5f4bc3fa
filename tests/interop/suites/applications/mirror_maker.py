"""MirrorMaker 2 in both directions between a cluster of the kind and one of Apache Kafka, with exactly-once sources.
Both clusters begin with the same topics, records, groups and ACLs, so that afterwards each must be the mirror image of
the other; any difference is one between the kinds. MirrorMaker is killed with SIGKILL while it copies; later, configs,
partitions and ACLs are changed, and a topic is added.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Message, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.cluster.processes import until
from tests.interop import java_programs
from tests.interop.suites.applications import reading
from tests.interop.suites.applications.claims import Claims
from tests.interop.suites.applications.nodes import cluster
from tests.librdkafka import AdminClient, Consumer, Producer
from trimaran.node.runtime.clock import now_ms

NAMES = ("one", "two")
PARTITIONS = {"orders": 3, "events": 1}
SECONDS_MAX = 300.0
CALL_SECONDS = 60
RECORDS = 400  # records of each partition, at a time
READ_BY_HALF = 150
ORDERS = {"retention.ms": "86400000", "max.message.bytes": "2000000", "segment.bytes": "10000000"}
EACH_WAY = {
    "enabled": "true",
    "topics": ".*",
    "groups": ".*",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "2",
    "emit.heartbeats.interval.seconds": "2",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
    "sync.topic.configs.interval.seconds": "2",
    "sync.topic.acls.interval.seconds": "2",
    "offset.lag.max": "0",
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
}
EACH = {
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
}


class MirrorMaker:
    """The process of MirrorMaker, with connectors in both directions."""

    def __init__(self, folder: Path, bootstraps: Mapping[str, str]) -> None:
        one, two = NAMES
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        keys = {
            "clusters": f"{one}, {two}",
            # Enables the REST requests that workers send each other before they fence a predecessor.
            "dedicated.mode.enable.internal.rest": "true",
            "listeners": f"http://127.0.0.1:{port}",
            "tasks.max": "2",
        }
        for name, bootstrap in bootstraps.items():
            keys[f"{name}.bootstrap.servers"] = bootstrap
            keys |= {f"{name}.{key}": value for key, value in EACH.items()}
        for way in (f"{one}->{two}", f"{two}->{one}"):
            keys |= {f"{way}.{key}": value for key, value in EACH_WAY.items()}
        self._file, self.log = folder / "mirror.properties", folder / "mirror.log"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        path = java_programs.connect_class_path("connect-mirror")
        self._line = java_programs.command(path, main, self._file, heap="640m")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._line, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Side:
    """One of the two clusters; `written` has the committed records by topic and partition."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name, self.bootstrap = name, bootstrap
        self.written: dict[str, list[list[tuple[Any, ...]]]] = {}
        self._began_ms = now_ms()
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        settings = {"bootstrap.servers": bootstrap, "transactional.id": "writer"}
        self._producer = Producer(settings)

    def begin(self) -> None:
        reading.create(
            self.bootstrap,
            [NewTopic("orders", PARTITIONS["orders"], 1, config=ORDERS), NewTopic("events", 1, 1)],
        )
        self.written = {topic: [[] for _ in range(count)] for topic, count in PARTITIONS.items()}
        self._producer.init_transactions(CALL_SECONDS)
        self.add_acls(
            ("alice", "READ", "ALLOW"), ("bob", "WRITE", "ALLOW"), ("eve", "READ", "DENY")
        )

    def write(self, topic: str) -> None:
        """Writes `RECORDS` records to each partition in ten transactions, every fifth of which is aborted."""
        for number in range(10):
            self._producer.begin_transaction()
            is_abort = number % 5 == 4
            for partition, written in enumerate(self.written[topic]):
                for _ in range(RECORDS // 10):
                    self._write(topic, partition, written, is_abort)
            self._producer.flush()
            if is_abort:
                self._producer.abort_transaction()
            else:
                self._producer.commit_transaction()

    def _write(
        self, topic: str, partition: int, written: list[tuple[Any, ...]], is_abort: bool
    ) -> None:
        number = len(written)
        key = None if number % 7 == 0 else b"key-%d" % (number % 20)
        value = None if number % 11 == 0 else b"aborted" if is_abort else b"value-%d" % number
        time_ms = self._began_ms + number
        headers = [("header", b"%d" % number), ("header", None)] if number % 3 == 0 else None
        self._producer.produce(topic, value, key, partition, timestamp=time_ms, headers=headers)
        if not is_abort:
            written.append((key, value, time_ms, headers))

    def commit(self, group: str, topic: str, count: int | None) -> None:
        """Reads `count` records of each partition, or all, and commits the next offsets."""
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings})
        for partition, written in enumerate(self.written[topic]):
            consumer.assign([TopicPartition(topic, partition, 0)])
            wanted = len(written) if count is None else count
            last: Message | None = None
            for _ in range(wanted):
                [last] = consumer.consume(1, CALL_SECONDS)
            assert last is not None
            consumer.commit(last, asynchronous=False)
        consumer.close()

    def add_acls(self, *given: tuple[str, str, str], topic: str = "orders") -> None:
        acls = [
            AclBinding(
                ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*",
                AclOperation[operation], AclPermissionType[permission],
            )
            for user, operation, permission in given
        ]  # fmt: skip
        for done in self._admin.create_acls(acls).values():
            done.result(CALL_SECONDS)

    def acls(self) -> list[str]:
        everything = AclBindingFilter(
            ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
        )  # fmt: skip
        found = self._admin.describe_acls(everything).result(CALL_SECONDS)
        return sorted(
            f"{acl.principal} {acl.permission_type.name} {acl.operation.name} {acl.name}"
            for acl in found
        )

    def change(self) -> None:
        """Makes later changes as an admin: a config, another partition, an ACL, a topic."""
        entry = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "orders", incremental_configs=[entry])
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(CALL_SECONDS)
        (grown,) = self._admin.create_partitions([NewPartitions("events", 2)]).values()
        grown.result(CALL_SECONDS)
        self.written["events"].append([])
        self.add_acls(("carol", "DESCRIBE", "ALLOW"))
        reading.create(self.bootstrap, [NewTopic("late", 2, 1, config={"retention.ms": "3600000"})])
        self.written["late"] = [[], []]

    def described(self) -> dict[str, Any]:
        """Returns topics, their configs, and ACLs, in a form that is equal on both sides."""
        topics = reading.topics(self.bootstrap)
        swap = _swapped if self.name == NAMES[1] else str
        return {
            "topics": {swap(name): count for name, count in sorted(topics.items())},
            "configs": {
                swap(name): config
                for name, config in reading.configs(self.bootstrap, topics).items()
            },
            "acls": sorted(map(swap, self.acls())),
        }


def _whole(message: Message) -> tuple[Any, ...]:
    _, time_ms = message.timestamp()
    return message.key(), message.value(), time_ms, message.headers()


def _swapped(text: str) -> str:
    one, two = NAMES
    return text.replace(one, "\0").replace(two, one).replace("\0", two)


def run(kind: str, folder: Path, claims: Claims) -> None:
    with (
        cluster(kind, folder / "one", (1,), (11, 12, 13)) as one,
        cluster("kafka", folder / "two", (1,), (11,)) as two,
    ):
        bootstraps = dict(zip(NAMES, (one.bootstrap, two.bootstrap), strict=True))
        mirror = MirrorMaker(folder, bootstraps)
        sides = [Side(name, bootstrap) for name, bootstrap in bootstraps.items()]
        try:
            _mirror(mirror, sides, claims)
        finally:
            mirror.kill()


def _mirror(mirror: MirrorMaker, sides: list[Side], claims: Claims) -> None:
    for side in sides:
        side.begin()
        side.write("orders")
        side.commit("half", "orders", READ_BY_HALF)
    mirror.start()
    for side in sides:
        other = sides[1] if side is sides[0] else sides[0]
        copy = f"{other.name}.orders"
        _wait(
            lambda at=side, name=copy: name in reading.topics(at.bootstrap), "the copies are made"
        )
    for _ in range(3):
        for side in sides:
            side.write("orders")
            side.write("events")
    mirror.kill()
    for side in sides:
        side.write("orders")
        side.commit("all", "orders", None)
        side.change()
        side.write("late")
    mirror.start()
    one, two = sides
    for side, other, way in ((one, two, "to Kafka"), (two, one, "from Kafka")):
        for topic in side.written:
            wanted, found = side.written[topic], _copied(other, topic, side)
            claims.equal(f"{way}: each record of {topic} once, in order", wanted, found)
    with contextlib.suppress(AssertionError):  # the claim reports the difference
        _wait(lambda: one.described() == two.described(), "both are alike")
    claims.equal("topics, configs and ACLs are alike on both", two.described(), one.described())
    for side, other, way in ((one, two, "to Kafka"), (two, one, "from Kafka")):
        _check_groups(side, other, way, claims)


def _copied(at: Side, topic: str, of: Side) -> list[list[tuple[Any, ...]]]:
    """Returns the records of a topic's copy once it has as many as the topic."""
    written = of.written[topic]
    _wait(
        lambda: reading.topics(at.bootstrap).get(f"{of.name}.{topic}") == len(written),
        f"{topic} is made",
    )
    reader = reading.Reader(at.bootstrap, f"{of.name}.{topic}", len(written), seen=_whole)
    count = sum(map(len, written))
    reader.read_until(lambda: len(reader.all) >= count, f"{topic} is copied", SECONDS_MAX)
    reader.close()
    return reader.records


def _check_groups(side: Side, other: Side, way: str, claims: Claims) -> None:
    """Checks that a group that continues on the other side gets all records that it has not read."""
    copy = f"{side.name}.orders"
    nothing: list[list[tuple[Any, ...]]] = [[] for _ in side.written["orders"]]
    _wait(lambda: _left(other, "all", copy) == nothing, f"{way}: the group is at the end")
    claims.equal(
        f"{way}: a group at the end is given nothing again", nothing, _left(other, "all", copy)
    )
    wanted = [written[READ_BY_HALF:] for written in side.written["orders"]]
    left = _left(other, "half", copy)
    claims.note(
        f"{way}: half is given {[len(records) for records in left]}, not {[len(records) for records in wanted]}"
    )
    found = [records[-len(rest) :] for records, rest in zip(left, wanted, strict=True)]
    claims.equal(f"{way}: a group that has read some is given all the rest", wanted, found)


def _left(at: Side, group: str, topic: str) -> list[list[tuple[Any, ...]]]:
    """Returns the records after a group's offsets, by partition."""
    offsets = reading.offsets(at.bootstrap, group)
    places = [(topic, partition) for partition in range(PARTITIONS["orders"])]
    starts = [offsets.get(place, 0) for place in places]
    reader = reading.Reader(at.bootstrap, topic, len(places), seen=_whole, starts=starts)
    reader.read_until(lambda: len(reader.ended) == len(places), f"{topic} is read", SECONDS_MAX)
    reader.close()
    return reader.records


def _wait(condition: Callable[[], object], what: str) -> None:
    until(condition, what, SECONDS_MAX)
