"""The fixtures in a pytest run of their own, as in a project with an installed trimaran."""

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from confluent_kafka import Producer

@pytest.fixture(scope="session")
def kafka_settings():
    return {"num.partitions": "3"}

def produce(bootstrap, topic):
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v")
    assert producer.flush(20) == 0

@pytest.mark.parametrize("n", [1, 2])
def test_each_test_has_its_own_topic(embedded_kafka, kafka_bootstrap, kafka_topic, n):
    produce(kafka_bootstrap, kafka_topic)
    embedded_kafka.eventually_consumes(kafka_topic, ["v"])
    assert kafka_topic.startswith("test_each_test_has_its_own_topic-")

def test_more_topics(embedded_kafka, kafka_topics):
    name = kafka_topics("orders", partitions=-1)
    produce(embedded_kafka.bootstrap, name)
    found = embedded_kafka.eventually_consumes(name, ["v"])
    assert "orders" in name and found[0].partition in (0, 1, 2)
"""


def test_plugin_works_in_an_installation(pytester):
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3)


IMPORTS = """
import sys

def test_imports():
    assert not [name for name in sys.modules if name.partition(".")[0] == "trimaran"]
"""


def test_run_without_kafka_imports_no_trimaran(pytester):
    """pytest reads attributes of everything in a plugin's module."""
    pytester.makepyfile(IMPORTS)
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
