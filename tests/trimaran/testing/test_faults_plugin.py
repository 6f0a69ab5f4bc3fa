"""The fixture `kafka` and its faults, in a pytest run of their own."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from kafka import KafkaProducer
from trimaran.faults.plan_error import PlanError

PLAN = '''
seed = 11
[[rules]]
name = "first"
api = "Produce"
error = "NOT_LEADER_OR_FOLLOWER"
times = 1
'''

def produce(kafka, topic):
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, retry_backoff_ms=10)
    assert producer.send(topic, b"v").get(60).offset == 0
    producer.close()

@pytest.mark.kafka_faults(PLAN)
def test_plan_is_applied(kafka, kafka_topic):
    produce(kafka, kafka_topic)
    assert [rule.applied for rule in kafka.faults] == [1]

@pytest.mark.kafka_faults("leader-moves", times=1)
def test_ready_plan_has_other_values(kafka, kafka_topic):
    produce(kafka, kafka_topic)
    assert [(rule.name, rule.applied) for rule in kafka.faults] == [("leader-moves", 1)]

def test_rules_end_with_their_test(kafka):
    assert list(kafka.faults) == []

@pytest.mark.kafka_faults(PLAN)
def test_failure(kafka, kafka_topic):
    produce(kafka, kafka_topic)
    assert kafka.faults.seed == 0

def test_unmatched(kafka):
    kafka.faults.add(api="Fetch", name="never", error="NOT_LEADER_OR_FOLLOWER")
    with kafka.faults(api="Produce", name="removed", delay=1):
        pass
    kafka.observe(api="Produce", name="watch").assert_never()

def test_script(kafka, kafka_topic):
    kafka.faults.add(api="Produce", script=lambda seen: 1 / 0)
    produce(kafka, kafka_topic)

def test_wrong_rule(kafka):
    with pytest.raises(PlanError, match="rule refused"):
        kafka.faults.add(api="Fecth")
"""


@pytest.fixture
def result(pytester):
    pytester.makepyfile(TESTS)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider")


def test_faults_are_those_of_one_test(result):
    result.assert_outcomes(passed=6, failed=1, errors=1)
    text = result.stdout.str()
    assert "seed = 11" in text
    assert 'name = "first"' in text
    assert "error NOT_LEADER_OR_FOLLOWER" in text
    assert "no request has matched the rule never" in text
    assert "no request has matched the rule removed" in text
    assert "ZeroDivisionError" in text


def test_plan_of_command_line_replaces_the_marker(pytester):
    pytester.makepyfile(TESTS)
    plan = pytester.path / "plan.toml"
    plan.write_text('seed = 5\n[[rules]]\napi = "Produce"\nname = "other"\ndelay = 0\n')
    found = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", f"--kafka-plan={plan}", "-k", "test_failure"
    )
    found.assert_outcomes(failed=1)
    assert "seed = 5" in found.stdout.str()
    assert "other: delay request 0 s" in found.stdout.str()
