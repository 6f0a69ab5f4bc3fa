"""A failed test shows the values and the nodes, without frames of ours. Mistyped settings are refused."""

import pytest

from trimaran.node.config.config_def import ConfigError
from trimaran.testing import EmbeddedKafka, KafkaCluster

pytest_plugins = ["pytester"]

MISTYPED = {"auto.create.topic.enable": "false"}
TESTS = """
def test_nothing_arrives(embedded_kafka, kafka_topic):
    embedded_kafka.eventually_consumes(kafka_topic, ["v"], timeout=0.2)
"""


@pytest.mark.parametrize("kind", [EmbeddedKafka, KafkaCluster])
def test_mistyped_setting_is_refused_with_similar_key(kind):
    with pytest.raises(ConfigError, match=r"did you mean auto\.create\.topics\.enable"):
        kind(settings=MISTYPED)
    kind(settings={"listener.name.x.ssl.client.auth": "none"})


def test_failure_names_values_and_node():
    with EmbeddedKafka() as kafka:
        topic = kafka.create_topic("t")
        with pytest.raises(AssertionError) as told:
            kafka.eventually_consumes(topic, ["a"], timeout=0.1)
        assert "missing b'a'" in str(told.value)
        assert f"node 1 at {kafka.bootstrap}: running" in str(told.value)
        with pytest.raises(AssertionError, match=r"it cannot be read: .*no-topic"):
            kafka.eventually_consumes("no-topic", ["a"], timeout=0.1)


@pytest.mark.cluster
@pytest.mark.slow
def test_dead_brokers_take_no_longer_than_timeout():
    with KafkaCluster(brokers=1, controllers=1) as kafka:
        topic = kafka.create_topic("t")
        kafka.kill(11)
        with pytest.raises(AssertionError) as told:
            kafka.eventually_consumes(topic, ["a"], timeout=0.5)
        text = str(told.value)
        assert "it cannot be read" in text
        assert "broker 11" in text
        assert "dead" in text
        assert told.value.__cause__ is None
        assert told.value.__context__ is None


def test_failure_shows_no_frames_of_ours(pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    shown = result.stdout.str()
    assert "kafka.py:" not in shown
    assert "missing b'v'" in shown
