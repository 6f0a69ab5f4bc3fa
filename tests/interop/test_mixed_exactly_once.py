"""Exactly-once on brokers of both kinds under a controller of Apache Kafka, while coordinators are killed with SIGKILL.
Java clients copy a topic in transactions, with a group of each protocol. Each killed broker leads the partitions of
`__consumer_offsets` and `__transaction_state`, and its successor is of the other kind, so that each kind loads the
records of the other. There are a few kills by default, and twenty with `./dev interop --minutes 10`.
"""

import subprocess
import time
from collections import Counter

import pytest
from confluent_kafka import TopicPartition

from tests.chaos.exactly_once import judge
from tests.interop import apache_kafka, java_programs
from tests.interop.controllers import WITHOUT_FEATURES, controllers
from tests.interop.mixed_quorum import until
from tests.librdkafka import AdminClient, Consumer, Producer

ODD, SECOND, THIRD = 11, 12, 13
BROKERS = {ODD, SECOND, THIRD}
PARTITIONS = 3
# There are few records, so that loading all of them repeatedly is quick.
INTERNAL = {"__consumer_offsets": 3, "__transaction_state": 3}
SETTINGS = {
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
}
COPIES = ("copy-classic", "copy-consumer")
RECORDS_PER_SECOND = 100
SECONDS_BETWEEN = 5.0
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


def create_topics(bootstrap):
    """Creates the topics. Internal ones are led by the only broker of its kind, if there is one, otherwise by the
    second broker; each of the three brokers leads a user's partition.
    """
    server = ("--bootstrap-server", bootstrap, "--create", "--config", "min.insync.replicas=2")
    for topic, count in INTERNAL.items():
        assigned = ",".join([f"{ODD}:{SECOND}:{THIRD}"] * count)
        arguments = (*server, "--topic", topic, "--config", "cleanup.policy=compact")
        apache_kafka.tool("topics", *arguments, "--replica-assignment", assigned)
    rotated = f"{ODD}:{SECOND}:{THIRD},{SECOND}:{THIRD}:{ODD},{THIRD}:{ODD}:{SECOND}"
    for topic in ("source", *COPIES):
        apache_kafka.tool("topics", *server, "--topic", topic, "--replica-assignment", rotated)


def partitions(bootstrap):
    """Returns the leaders of the internal topics, and whether all replicas of all partitions are in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics(timeout=CALL_SECONDS).topics
    leaders = {
        partition.leader for name in INTERNAL for partition in topics[name].partitions.values()
    }
    are_whole = all(
        set(partition.isrs) == BROKERS
        for topic in topics.values()
        for partition in topic.partitions.values()
    )
    return leaders, are_whole


def kill_coordinators(cluster, count, source):
    """Kills the leader of both internal topics `times` times, each time with a successor of the other kind; returns the
    number of takeovers by kind. Every fifth kill is of another broker, which leads only users' partitions.
    """
    takeovers = Counter()
    for number in range(count):
        until(lambda: partitions(cluster.bootstrap(*BROKERS))[1], "all replicas are in sync")
        source.send_for(SECONDS_BETWEEN)
        ((leader,), _) = partitions(cluster.bootstrap(*BROKERS))
        victim = THIRD if number % 5 == 4 else leader
        cluster.kill(victim)
        left = cluster.bootstrap(*(BROKERS - {victim}))
        gone = {victim, -1}
        until(lambda at=left, gone=gone: not partitions(at)[0] & gone, "another leader")
        ((now,), _) = partitions(left)
        if now != leader:
            takeovers[cluster.kind(leader), cluster.kind(now)] += 1
        source.send_for(SECONDS_BETWEEN / 2)
        cluster.start(victim)
    return takeovers


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


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    return java_programs.compiled("Copiers", tmp_path_factory.mktemp("classes"))


@pytest.mark.client("Java", "transactions", version=apache_kafka.VERSION)
@pytest.mark.parametrize("odd", ["ours", "kafka"])
def test_mixed_brokers_neither_lose_nor_duplicate_records(tmp_path, program, odd, minutes):
    others = "kafka" if odd == "ours" else "ours"
    brokers = {ODD: odd, SECOND: others, THIRD: others}
    kills = max(4, int(2 * minutes))
    with controllers(tmp_path, {1: "kafka"}, brokers, SETTINGS) as cluster:
        cluster.format(1, "--standalone", *WITHOUT_FEATURES)
        cluster.start(1)
        cluster.start_brokers()
        bootstrap = cluster.bootstrap(*brokers)
        create_topics(bootstrap)
        source = Source(bootstrap)
        line = java_programs.command(program, "Copiers", bootstrap)
        with (
            (tmp_path / "copiers.log").open("w") as log,
            subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as copiers,
        ):  # fmt: skip
            takeovers = kill_coordinators(cluster, kills, source)
            source.close()
            found = {
                topic: read_committed(
                    bootstrap, topic, lambda found: source.acked <= set(found.values())
                )
                for topic in COPIES
            }
            said = copiers.communicate(timeout=CALL_SECONDS)[0]
        print(
            f"{len(source.acked)} inputs, {kills} kills, {dict(takeovers)}, {said.splitlines()[-1]}"
        )
        for topic in COPIES:
            verdict = judge(source.sent, source.acked, found[topic], [])
            assert verdict.ok, f"{topic}: {verdict}"
        assert min(takeovers["ours", "kafka"], takeovers["kafka", "ours"]) > 0
