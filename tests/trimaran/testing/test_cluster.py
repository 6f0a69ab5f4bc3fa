"""A cluster of processes that a test breaks and repairs."""

import pytest

from tests.cluster.processes import until
from tests.librdkafka import Producer
from trimaran.testing import KafkaCluster

# Sessions last a second here, so on a loaded machine one may expire and begin again.
SECONDS = 60.0


def state_of(kafka, node):
    """Returns `active`, `fenced`, …, as `ps` shows it."""
    return {node["id"]: node["state"] for node in kafka.nodes()}[node]


def test_acknowledged_records_outlive_a_killed_broker():
    with KafkaCluster(brokers=2, controllers=1) as kafka:
        topic = kafka.create_topic("t", partitions=2, replication=2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
        producer.produce(topic, b"before")
        assert producer.flush(60) == 0
        kafka.kill(11)
        assert {node["id"]: node["state"] for node in kafka.nodes()}[11] == "dead"
        producer.produce(topic, b"while one is dead")
        assert producer.flush(60) == 0
        kafka.eventually_consumes(topic, ["before", "while one is dead"])
        kafka.restart(11)
        with pytest.raises(RuntimeError, match="no node '99'"):
            kafka.kill(99)
    kafka.stop()


def test_broker_with_full_disk_yields_its_partitions():
    with KafkaCluster(brokers=2, controllers=1) as kafka:
        topic = kafka.create_topic("t", replication=2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
        kafka.fill_disk(11)
        producer.produce(topic, b"a" * 100)
        producer.produce(topic, b"b" * 100)
        assert producer.flush(60) == 0
        kafka.eventually_consumes(topic, ["a" * 100, "b" * 100])
        kafka.restart(11)
        until(lambda: state_of(kafka, 11) == "active", "it serves again", SECONDS)
        with pytest.raises(RuntimeError, match="no node 99 runs"):
            kafka.fill_disk(99)


def test_isolated_broker_loses_partitions_and_returns():
    with KafkaCluster(brokers=2, controllers=1) as kafka:
        topic = kafka.create_topic("t", replication=2)
        kafka.isolate(11)
        until(lambda: state_of(kafka, 11) == "fenced", "its session has ended", SECONDS)
        until(lambda: state_of(kafka, 12) == "active", "the other one serves", SECONDS)
        # Clients still reach 11, which may consider itself the leader forever: this one only knows 12.
        address = next(node["address"] for node in kafka.nodes() if node["id"] == 12)
        producer = Producer({"bootstrap.servers": address, "acks": "all"})
        producer.produce(topic, b"meanwhile")
        assert producer.flush(30) == 0
        kafka.heal()
        until(lambda: state_of(kafka, 11) == "active", "it joins again", SECONDS)
        kafka.eventually_consumes(topic, ["meanwhile"], timeout=30)


def test_unlinked_brokers_leave_each_others_isr():
    settings = {"replica.lag.time.max.ms": "1000"}
    with KafkaCluster(brokers=2, controllers=1, settings=settings) as kafka:
        topic = kafka.create_topic("t", replication=2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
        kafka.partition([11], [12])
        producer.produce(topic, b"alone")
        assert producer.flush(60) == 0
        both = {11: "active", 12: "active"}
        until(lambda: {n: state_of(kafka, n) for n in both} == both, "no session ends", SECONDS)
        kafka.restart(12)  # cut connections stay cut
        producer.produce(topic, b"still alone")
        assert producer.flush(60) == 0
        with pytest.raises(RuntimeError, match="in two groups"):
            kafka.partition([1, 11], [11])
        with pytest.raises(RuntimeError, match="nothing to partition"):
            kafka.partition([1, 11])
        kafka.heal()
        kafka.eventually_consumes(topic, ["alone", "still alone"], timeout=30)
