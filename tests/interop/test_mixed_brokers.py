"""Our brokers and those of Apache Kafka 4.4 in one cluster, under controllers of either kind: they replicate from each
other and take over each other's partitions.
"""

import pytest
from confluent_kafka import TopicPartition

from tests.interop import apache_kafka
from tests.interop.controllers import controllers
from tests.interop.mixed_quorum import until
from tests.librdkafka import AdminClient, Consumer, Producer
from trimaran.log.inspection.reader import scan_batches

OURS, KAFKAS = 11, 12
# Two partitions, one led by each kind; `first` and `last` are records from before and after the end of each leader.
ASSIGNMENT = f"{OURS}:{KAFKAS},{KAFKAS}:{OURS}"
RECORDS = 300


def produce(bootstrap, first):
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    failed = []
    for number in range(first, first + RECORDS):
        producer.produce(
            "mixed",
            f"value {number}",
            f"key {number}",
            partition=number % 2,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failed == []


def consume(bootstrap, count):
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("mixed", partition, 0) for partition in (0, 1)])
    found = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, f"{len(found)} of {count}"
        assert message.error() is None
        found.append(int(message.value().split()[1]))
    consumer.close()
    return sorted(found)


def partitions(bootstrap):
    """Returns (leader, ISR) by partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.list_topics("mixed", timeout=10).topics["mixed"].partitions
    return {index: (value.leader, set(value.isrs)) for index, value in described.items()}


def log_of(cluster, broker, partition):
    """Returns all bytes of the log; they must be equal, because followers copy batches unchanged."""
    path = cluster.directory(broker) / f"mixed-{partition}" / f"{0:020d}.log"
    return b"".join(bytes(batch.buffer) for _, batch in scan_batches(path))


@pytest.mark.parametrize("controller", ["ours", "kafka"])
def test_brokers_of_both_kinds_replicate_each_other(tmp_path, controller):
    with controllers(tmp_path, {1: controller}, {OURS: "ours", KAFKAS: "kafka"}) as cluster:
        cluster.format(1, "--standalone")
        cluster.start(1)
        cluster.start_brokers()
        bootstrap = cluster.bootstrap(OURS, KAFKAS)
        server = ("--bootstrap-server", bootstrap, "--topic", "mixed")
        apache_kafka.tool("topics", *server, "--create", "--replica-assignment", ASSIGNMENT)
        both = {OURS, KAFKAS}
        until(lambda: partitions(bootstrap) == {0: (OURS, both), 1: (KAFKAS, both)}, "two leaders")
        produced = 0
        for gone, left in ((OURS, KAFKAS), (KAFKAS, OURS)):
            produce(bootstrap, produced)
            cluster.kill(gone)
            alone = {0: (left, {left}), 1: (left, {left})}
            until(lambda who=left, then=alone: partitions(cluster.address(who)) == then, "one left")
            produce(cluster.address(left), produced + RECORDS)
            produced += 2 * RECORDS
            assert consume(cluster.address(left), produced) == list(range(produced))
            cluster.start(gone)
            until(
                lambda: all(isr == both for _, isr in partitions(bootstrap).values()), "both again"
            )
        election = ("--bootstrap-server", bootstrap, "--all-topic-partitions")
        apache_kafka.tool("leader-election", *election, "--election-type", "preferred")
        until(lambda: partitions(bootstrap) == {0: (OURS, both), 1: (KAFKAS, both)}, "two leaders")
        assert consume(bootstrap, produced) == list(range(produced))
        cluster.stop()
        for partition in (0, 1):
            mine, theirs = (log_of(cluster, broker, partition) for broker in (OURS, KAFKAS))
            assert mine == theirs
            assert len(mine) > 10_000
