"""A cluster of processes, broken and mended by a test."""

import pytest
from confluent_kafka import Producer

from trimaran.testing import KafkaCluster


def test_acknowledged_records_outlive_a_killed_broker():
    with KafkaCluster(brokers=2, controllers=1) as kafka:
        topic = kafka.create_topic("t", partitions=2, replication=2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
        producer.produce(topic, b"before")
        assert producer.flush(30) == 0
        kafka.kill(11)
        assert {one["id"]: one["state"] for one in kafka.nodes()}[11] == "dead"
        producer.produce(topic, b"while one is dead")
        assert producer.flush(30) == 0
        kafka.eventually_consumes(topic, ["before", "while one is dead"])
        kafka.restart(11)
        with pytest.raises(RuntimeError, match="no node '99'"):
            kafka.kill(99)
    kafka.stop()


def test_a_broker_whose_disk_is_full_leaves_its_partitions_to_others():
    with KafkaCluster(brokers=2, controllers=1) as kafka:
        topic = kafka.create_topic("t", replication=2)
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "acks": "all"})
        kafka.fill_disk(11)
        producer.produce(topic, b"a" * 100)
        producer.produce(topic, b"b" * 100)
        assert producer.flush(30) == 0
        kafka.eventually_consumes(topic, ["a" * 100, "b" * 100])
        kafka.restart(11)
        states = {one["id"]: one["state"] for one in kafka.nodes()}
        assert states[11] == "active"
        with pytest.raises(RuntimeError, match="no node 99 runs"):
            kafka.fill_disk(99)
