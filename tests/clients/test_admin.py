"""Administration by every client, looked at by another."""

import pytest

from tests.clients.records import Unsupported
from tests.local_cluster import until


def test_the_life_of_a_topic(client, judge, cluster):
    name = f"life-{client.name}-{judge.name}"
    client.create_topic(name, 2, {"retention.ms": "60000"})
    cluster.wait_for_topic(name)
    assert set(judge.replicas(name)) == {0, 1}
    assert all(sorted(r) == sorted(cluster.brokers()) for r in judge.replicas(name).values())
    assert judge.config(name, "retention.ms") == "60000"
    assert judge.config(name, "cleanup.policy") == "delete"
    client.create_partitions(name, 5)
    until(lambda: len(judge.replicas(name)) == 5, "five partitions")
    client.delete_topic(name)
    until(lambda: name not in judge.topics(), "the topic is gone")


@pytest.mark.parametrize("client", ["confluent", "kafka-python"], indirect=True)
def test_configs_are_altered_incrementally(client, judge, topic):
    client.alter_config(topic, "max.message.bytes", "2048")
    client.alter_config(topic, "retention.ms", "1000")
    until(lambda: judge.config(topic, "retention.ms") == "1000", "the change is seen")
    until(lambda: judge.config(topic, "max.message.bytes") == "2048", "so is the one before")


def test_a_client_that_has_only_the_old_way_to_alter_configs_is_told_by_the_versions(
    clients, topic
):
    with pytest.raises(Unsupported):
        clients["aiokafka"].alter_config(topic, "retention.ms", "1")
    assert clients["confluent"].config(topic, "retention.ms") == "604800000"


@pytest.mark.parametrize(("topic_name", "partitions"), [("bad/name", 1), ("no-partitions", 0)])
def test_a_refusal_reaches_the_caller(client, topic_name, partitions):
    with pytest.raises(Exception, match=r"(?i)invalid|topic_exception|partition"):
        client.create_topic(topic_name, partitions, {})
    assert topic_name not in client.topics()
