"""Clusters of Apache Kafka and of ours for share groups: two brokers, quick heartbeats, and short locks allowed."""

import contextlib
import json

from tests.interop import apache_kafka
from tests.interop.conftest import trimaran

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.size": "4",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
    "transaction.state.log.num.partitions": "6",
}


class Ours:
    """A local cluster of ours whose brokers can be killed and started again."""

    def __init__(self, data, state):
        self._data = data
        self.bootstrap = state["bootstrap"]

    def kill(self, broker):
        trimaran("chaos", "kill", str(broker), data=self._data)

    def start(self, broker):
        trimaran("chaos", "restart", str(broker), data=self._data)


class Kafkas:
    """A cluster of Apache Kafka with the same interface."""

    def __init__(self, cluster):
        self._nodes = {node.id: node for node in cluster.brokers}
        self._cluster = cluster
        self.bootstrap = cluster.bootstrap

    def kill(self, broker):
        self._cluster.kill(self._nodes[broker])

    def start(self, broker):
        self._cluster.start_node(self._nodes[broker])
        self._cluster.wait_ready()


@contextlib.contextmanager
def running(kind, directory):
    """Starts a cluster of the kind `ours` or `kafka`; stops it at the end."""
    if kind == "kafka":
        with apache_kafka.running(directory, controllers=1, brokers=2, settings=SETTINGS) as kafka:
            yield Kafkas(kafka)
        return
    overrides = [word for pair in SETTINGS.items() for word in ("--override", "=".join(pair))]
    words = ("up", "-d", "--controllers", "1", "--brokers", "2", *overrides, "-o", "json")
    state = json.loads(trimaran(*words, data=directory).stdout)
    try:
        yield Ours(directory, state)
    finally:
        trimaran("down", data=directory)
