"""Clients of a mixed cluster during kills: a source of numbered values, and groups of every kind that read it. A
classic, a consumer and a streams group copy the source exactly once, a share group acknowledges it.
"""

import contextlib
import json
import subprocess
import time

from confluent_kafka import TopicPartition

from tests.chaos import share_events
from tests.chaos.exactly_once import judge
from tests.interop import apache_kafka, java_programs
from tests.interop.conftest import trimaran
from tests.interop.mixed_quorum import until
from tests.librdkafka import Consumer, Producer
from tests.share_history import Rule, told

PARTITIONS = 3
COPIES = ("copy-classic", "copy-consumer", "copy-streams")
PROGRAMS = ("Copiers", "StreamsCopy", "ShareMembers")
SHARE_GROUP = "sharers"
RECORDS_PER_SECOND = 100
CALL_SECONDS = 60


class Source:
    """A source of numbered values, each acknowledged by all in-sync replicas."""

    def __init__(self, bootstrap):
        self.sent, self.acked = [], set()
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True}
        self._producer = Producer(settings)

    def send_for(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = b"%d" % len(self.sent)
            self.sent.append(value)
            partition = len(self.sent) % PARTITIONS
            self._producer.produce(
                "source", value, partition=partition, on_delivery=self._delivered
            )
            self._producer.poll(0)
            time.sleep(1 / RECORDS_PER_SECOND)

    def _delivered(self, error, message):
        if error is None:
            self.acked.add(message.value())

    def close(self):
        assert self._producer.flush(CALL_SECONDS) == 0
        assert self.acked == set(self.sent)


class Groups:
    """Three Java programs with members of all kinds of groups, until `close`; their output is in files in `root`."""

    def __init__(self, root, classes, bootstrap):
        self._root, self._bootstrap = root, bootstrap
        self._stack = contextlib.ExitStack()
        self._processes = {}
        for name in PROGRAMS:
            more = (root / "streams-state",) if name == "StreamsCopy" else ()
            path = java_programs.compiled(name, classes)
            log = self._stack.enter_context(self._file(name).open("w"))
            process = subprocess.Popen(
                java_programs.command(path, name, bootstrap, *more),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
            self._stack.callback(process.kill)
            self._processes[name] = process

    def _file(self, name):
        return self._root / f"{name}.log"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def lines(self, name):
        return self._file(name).read_text().splitlines()

    def wait_for(self, acked):
        """Waits until all values are copied and acknowledged; returns the records of each copy."""
        found = {
            topic: read_committed(
                self._bootstrap, topic, lambda found: acked <= set(found.values())
            )
            for topic in COPIES
        }
        until(lambda: not unshared(acked, self.lines("ShareMembers")), "all is shared")
        until(lambda: share_lag(self._bootstrap) == 0, "no share partition lags")
        return found

    def close(self):
        """Ends the programs; returns the line of counts of the copiers."""
        for process in self._processes.values():
            process.stdin.close()
        for name, process in self._processes.items():
            assert process.wait(CALL_SECONDS) == 0, f"{name}: {self.lines(name)[-5:]}"
        return self.lines("Copiers")[-1]


def unshared(acked, lines):
    """Returns the values that members have not acknowledged."""
    found = share_events.broken(acked, lines)
    return [breach.place for breach in found if breach.rule is Rule.NOT_ENDED]


def share_lag(bootstrap):
    """Returns the number of records that the share group has not yet finished; None without an answer."""
    done = trimaran("groups", "lag", SHARE_GROUP, "-b", bootstrap, "-o", "json", check=False)
    if done.returncode != 0:
        return None
    (row,) = json.loads(done.stdout)
    return row["lag"] if row["partitions"] == PARTITIONS else None


def read_committed(bootstrap, topic, is_whole):
    """Returns the records of a topic by partition and offset; reads for two more seconds after it is complete."""
    settings = {"group.id": "judge", "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found = {}

    def read():
        for result in consumer.consume(1000, 0.5):
            if result.error() is None:
                found[result.partition(), result.offset()] = result.value()
        return is_whole(found)

    until(read, f"{topic} is whole")
    for _ in range(4):
        read()
    consumer.close()
    return found


def check(source, copies, share_lines, limit=share_events.LIMIT):
    """Checks that nothing is lost or doubled; `limit` is the largest number of deliveries of the share group."""
    for topic, found in copies.items():
        verdict = judge(source.sent, source.acked, found, [])
        assert verdict.ok, f"{topic}: {verdict}"
    breaches = share_events.broken(source.acked, share_lines, limit)
    assert not breaches, told(breaches)


def create_topics(bootstrap, internal, assigned, others=()):
    """Creates the internal topics with their settings, each partition with the replicas `assigned`; each of the three
    brokers leads one partition of every other topic, which includes `others`.
    """
    server = ("--bootstrap-server", bootstrap, "--create", "--config", "min.insync.replicas=2")
    first, second, third = assigned.split(":")
    rotated = f"{assigned},{second}:{third}:{first},{third}:{first}:{second}"
    for topic, settings in internal.items():
        more = [word for setting in settings for word in ("--config", setting)]
        replicas = ("--replica-assignment", ",".join([assigned] * PARTITIONS))
        apache_kafka.tool("topics", *server, "--topic", topic, *more, *replicas)
    for topic in ("source", *COPIES, *others):
        apache_kafka.tool("topics", *server, "--topic", topic, "--replica-assignment", rotated)
