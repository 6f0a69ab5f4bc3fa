"""A broker's throttles follow the metadata: its own replicas, at its own rates or the cluster's defaults."""

import pytest

from tests.cluster.data_side import config as config_of
from tests.quorum.metadata.build import config, image_of
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.node.config.config_def import LONG_MAX
from trimaran.node.quotas.replication_throttle import replicas_here
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.identity import TopicPartition

TOPIC, BROKER = 2, 4
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATE = "leader.replication.throttled.rate"


class Node:
    """Broker 11; `apply` publishes records."""

    def __init__(self):
        self.image = image_of()
        server = config_of()
        configs = NodeConfigs(server, lambda: self.image.configs)
        self.throttles = ReplicationThrottles.of(server, configs)
        self.node = str(server.node_id)

    def apply(self, *records):
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.provenance)
        self.throttles.publish(delta, self.image, None)


@pytest.fixture
def node():
    return Node()


def test_throttled_replicas_are_listed_by_topic(node):
    node.apply(config(LEADERS, f"0:{node.node},1:999"), config(FOLLOWERS, "*"))
    leader, follower = node.throttles.leader, node.throttles.follower
    assert [leader.holds(TopicPartition("t", index)) for index in (0, 1)] == [True, False]
    assert follower.holds(TopicPartition("t", 1))
    assert not follower.holds(TopicPartition("u", 1))
    node.apply(config(LEADERS, None))
    assert (leader.is_set, follower.is_set) == (False, True)


def test_throttle_lists_are_parsed_on_first_use(node, monkeypatch):
    """B2: a metadata snapshot contains all lists, and is published in one step."""
    read = []

    def counted(text, node_id):
        read.append(text)
        return replicas_here(text, node_id)

    monkeypatch.setattr("trimaran.node.quotas.replication_throttle.replicas_here", counted)
    node.apply(*(config(LEADERS, f"{i}:{node.node}", (TOPIC, f"t{i}")) for i in range(9)))
    leader = node.throttles.leader
    assert leader.is_set
    assert read == []
    assert leader.holds(TopicPartition("t3", 3))
    assert not leader.holds(TopicPartition("t3", 4))
    assert read == [f"3:{node.node}"]


@pytest.mark.parametrize("before", ["0:999", "*"])
def test_list_altered_before_parsing_uses_latest_value(node, before):
    leader = node.throttles.leader
    node.apply(config(LEADERS, before))
    node.apply(config(LEADERS, f"7:{node.node}"))
    assert [leader.holds(TopicPartition("t", index)) for index in (0, 7)] == [False, True]
    node.apply(config(LEADERS, before))
    node.apply(config(LEADERS, None))
    assert not leader.is_set


def test_broker_rate_overrides_the_default(node):
    leader = node.throttles.leader
    assert leader.bound == LONG_MAX
    for resource, value, expected in (
        ("", "1000", 1000),
        (node.node, "50", 50),
        ("999", "7", 50),
        (node.node, None, 1000),
        ("", None, LONG_MAX),
    ):
        node.apply(config(RATE, value, (BROKER, resource)))
        assert leader.bound == expected


def test_each_rate_is_of_its_own_direction(node):
    keys = {
        "follower": "follower.replication.throttled.rate",
        "moves": "replica.alter.log.dirs.io.max.bytes.per.second",
        "leader": RATE,
    }
    for number, (name, key) in enumerate(keys.items()):
        node.apply(config(key, str(number), (BROKER, "")))
        assert getattr(node.throttles, name).bound == number
