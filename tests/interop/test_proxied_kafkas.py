"""The proxy in front of Apache Kafka from 2.1 on: clients reach only the proxy, and rules work on its old versions."""

from contextlib import contextmanager

import pytest
from confluent_kafka.admin import NewTopic

from tests.interop import apache_kafka, zookeeper_mode
from tests.librdkafka import AdminClient, Consumer, Producer
from trimaran.faults.fault_set import FaultSet
from trimaran.faults.proxy import ProxySettings
from trimaran.testing.faults import KafkaFaults
from trimaran.testing.proxied import ProxyThread
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.zkcompat.zookeeper.server_process import start_zookeeper

ZOOKEEPER_MODE = ("2.1.1", "2.8.2")
KRAFT = ("3.9.1", "4.3.0", apache_kafka.VERSION)
TOPIC = "proxied"
VALUES = [b"%d" % number for number in range(50)]
SMALL = ("-Xmx256m",)


@contextmanager
def in_zookeeper_mode(version, directory):
    zookeeper = start_zookeeper(directory / "zookeeper")
    try:
        address = f"127.0.0.1:{zookeeper.port}"
        with zookeeper_mode.running(
            version, directory / "kafka", address, (1, 2), java_options=SMALL
        ) as kafka:
            yield kafka.bootstrap
    finally:
        zookeeper.stop()


@contextmanager
def in_kraft_mode(version, directory):
    with apache_kafka.running(
        directory, controllers=0, brokers=2, heap="384m", version=version
    ) as kafka:
        yield kafka.bootstrap


@pytest.fixture(params=[*ZOOKEEPER_MODE, *KRAFT])
def proxied(request, tmp_path):
    """Yields the rules of a proxy in front of two brokers, and its address."""
    started = in_zookeeper_mode if request.param in ZOOKEEPER_MODE else in_kraft_mode
    with started(request.param, tmp_path) as bootstrap:
        rules = FaultSet()
        proxy = ProxyThread(ProxySettings(parse_bootstrap(bootstrap)), rules)
        yield KafkaFaults(rules), proxy.bootstrap
        proxy.stop()


def test_clients_of_each_kafka_survive_rules(proxied):
    faults, bootstrap = proxied
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 4, 2)])[TOPIC].result(60)
    moved = faults.add(api="Produce", topic=TOPIC, error="NOT_LEADER_OR_FOLLOWER", times=3)
    joined = faults.add(api="JoinGroup", error="COORDINATOR_LOAD_IN_PROGRESS", times=1)
    lost = faults.add(api="OffsetCommit", group="billing", close="middle", times=1)
    seen = faults.add(api=["Produce", "Fetch"])
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in VALUES:
        producer.produce(TOPIC, value, value)
    assert producer.flush(60) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": "billing"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    values = []
    while len(values) < len(VALUES):
        values += [record.value() for record in consumer.consume(len(VALUES), timeout=60)]
    assert sorted(values, key=int) == VALUES
    consumer.commit(asynchronous=False)
    committed = consumer.committed(consumer.assignment(), timeout=60)
    assert sum(partition.offset for partition in committed if partition.offset > 0) == len(VALUES)
    consumer.close()
    assert (moved.applied, joined.applied, lost.applied) == (3, 1, 1)
    assert {each.peer.broker for each in seen.seen} == {1, 2}
    assert not faults.fault_set.script_errors
