"""librdkafka with `group.protocol=consumer` against real processes: sharing, patterns, a killed coordinator,
migration.
"""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType

from tests.broker.groups.test_clients import PARTITIONS, Cluster
from tests.librdkafka import AdminClient, Consumer

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("consumer-groups"), initial_delay_ms=0) as cluster:
        yield cluster


class Members:
    """Consumers of one group, polled in turn; `read` counts how often each record was received, and `owned` has the
    owners.
    """

    def __init__(self, cluster, group, topics):
        self.cluster, self.group, self.topics = cluster, group, topics
        self.consumers = {}
        self.read = {}

    def add(self, name, **config):
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **config,
            }
        )
        consumer.subscribe(self.topics)
        self.consumers[name] = consumer

    def drop(self, name):
        self.consumers.pop(name).close()

    def owned(self):
        return {
            name: sorted(
                (partition.topic, partition.partition) for partition in consumer.assignment()
            )
            for name, consumer in self.consumers.items()
        }

    def poll_until(self, reached):
        deadline = time.monotonic() + WAIT_SECONDS
        while not reached():
            assert time.monotonic() < deadline, (self.owned(), len(self.read))
            for consumer in self.consumers.values():
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    place = message.topic(), message.partition(), message.offset()
                    self.read[place] = self.read.get(place, 0) + 1
                    consumer.commit(message, asynchronous=False)

    def shares(self, *sizes):
        """Whether the members own these numbers of partitions, all different."""
        owned = self.owned().values()
        together = [partition for mine in owned for partition in mine]
        return sorted(map(len, owned)) == sorted(sizes) and len(set(together)) == len(together)

    def close(self):
        for consumer in self.consumers.values():
            consumer.close()


def described(cluster, group):
    """Describes the group with a client that has not cached the group's coordinator."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return admin.describe_consumer_groups([group])[group].result(WAIT_SECONDS)


def test_members_share_and_a_killed_coordinator_loses_nothing(cluster):
    cluster.create("shared")
    cluster.produce("shared", 400)
    with closing(Members(cluster, "shared", ["shared"])) as members:
        members.add("a")
        members.poll_until(lambda: members.shares(PARTITIONS))
        members.add("b")
        members.poll_until(lambda: members.shares(2, 2) and len(members.read) >= 100)
        found = described(cluster, "shared")
        assert found.type == ConsumerGroupType.CONSUMER
        assert len(found.members) == 2
        text = cluster.run("groups", "describe", "shared").stdout
        assert text.startswith("shared: Stable, 2 members"), text
        node = cluster.coordinator("shared")
        cluster.run("chaos", "kill", f"broker-{node}")
        try:
            members.poll_until(lambda: len(members.read) == 400)
        finally:
            cluster.run("chaos", "restart", f"broker-{node}")
        assert set(members.read.values()) == {1}
        members.drop("a")
        members.poll_until(lambda: members.shares(PARTITIONS))
    assert cluster.committed("shared", "shared") == [100] * PARTITIONS
    assert described(cluster, "shared").state == ConsumerGroupState.EMPTY


def test_pattern_is_resolved_by_broker(cluster):
    cluster.create("logs-a")
    cluster.produce("logs-a", 8)
    with closing(Members(cluster, "pattern", ["^logs-.*"])) as members:
        members.add("a")
        members.poll_until(lambda: members.shares(PARTITIONS) and len(members.read) == 8)
        assert {topic for topic, _, _ in members.read} == {"logs-a"}


def test_group_changes_protocols_while_reading(cluster):
    cluster.create("moving")
    with closing(Members(cluster, "moving", ["moving"])) as members:
        members.add("old", **{"group.protocol": "classic"})
        cluster.produce("moving", 100)
        members.poll_until(lambda: members.shares(PARTITIONS) and len(members.read) == 100)
        assert described(cluster, "moving").type == ConsumerGroupType.CLASSIC
        members.add("new")
        members.poll_until(lambda: members.shares(2, 2))
        cluster.produce("moving", 100)
        members.poll_until(lambda: len(members.read) == 200)
        assert described(cluster, "moving").type == ConsumerGroupType.CONSUMER
        members.drop("new")
        members.poll_until(lambda: members.shares(PARTITIONS))
        cluster.produce("moving", 100)
        members.poll_until(lambda: len(members.read) == 300)
        assert described(cluster, "moving").type == ConsumerGroupType.CLASSIC
        assert set(members.read.values()) == {1}
    assert cluster.committed("moving", "moving") == [75] * PARTITIONS
