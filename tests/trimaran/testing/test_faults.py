"""Faults of an embedded node, as tests of other projects use them."""

import contextlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from tests.librdkafka import Consumer, Producer
from trimaran.faults.plan_error import PlanError
from trimaran.testing import EmbeddedKafka, KafkaCluster
from trimaran.wire.messages.registry import ApiKey


@pytest.fixture(scope="module")
def node():
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def kafka(node):
    yield node
    node.faults.check_scripts()
    node.faults.clear()


def produced(kafka, topic, count=1, **settings):
    """Returns the errors of records that a client produces."""
    errors = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    for number in range(count):
        producer.produce(
            topic, b"%d" % number, partition=0, on_delivery=lambda error, _: errors.append(error)
        )
    assert producer.flush(60) == 0
    return errors


def consumer_of(kafka, topic, group, **settings):
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )
    consumer.subscribe([topic])
    return consumer


def values(consumer, count):
    return [record.value() for record in consumer.consume(count, timeout=60)]


def test_producer_retries_an_error_on_demand(kafka):
    topic = kafka.create_topic("retried")
    rule = kafka.faults.add(
        api="Produce", topic=topic, partition=0, error="NOT_LEADER_OR_FOLLOWER", times=3
    )
    assert produced(kafka, topic) == [None]
    assert rule.applied == 3
    kafka.eventually_consumes(topic, ["0"])


def test_producer_reports_an_error_that_is_final(kafka):
    topic = kafka.create_topic("final")
    with kafka.faults(api="Produce", topic=topic, error="MESSAGE_TOO_LARGE"):
        (error,) = produced(kafka, topic)
    assert error.name() == "MSG_SIZE_TOO_LARGE"
    assert produced(kafka, topic) == [None]


def test_fetch_of_one_partition_fails_and_recovers(kafka):
    topic = kafka.create_topic("fetched", partitions=2)
    produced(kafka, topic)
    rule = kafka.faults.add(
        api="Fetch", topic=topic, partition=0, error="NOT_LEADER_OR_FOLLOWER", times=2
    )
    consumer = consumer_of(kafka, topic, "fetched")
    assert values(consumer, 1) == [b"0"]
    consumer.close()
    assert rule.applied == 2
    assert all("topic_id" in item for item in rule.seen[0].items)


def test_commit_without_response_is_stored(kafka):
    topic = kafka.create_topic("committed")
    produced(kafka, topic)
    consumer = consumer_of(
        kafka, topic, "committed", **{"socket.timeout.ms": 2000, "session.timeout.ms": 60_000}
    )
    assert values(consumer, 1) == [b"0"]
    lost = kafka.faults.add(api="OffsetCommit", group="committed", drop="response", times=1)
    with contextlib.suppress(KafkaException):  # librdkafka may send the request again
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert lost.applied == 1
    (stored,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    assert stored.offset == 1
    assert lost.seen[0].request.group_id == "committed"
    consumer.close()


def test_requests_are_observed_and_awaited(kafka):
    topic = kafka.create_topic("observed")
    produced(kafka, topic)
    joins = kafka.observe(api="JoinGroup", group="observed")
    never = kafka.observe(api="LeaveGroup", group="other")
    consumer = consumer_of(kafka, topic, "observed")
    assert values(consumer, 1) == [b"0"]
    first = joins.wait_answered(1)[0]
    assert first.api is ApiKey.JOIN_GROUP
    assert json.loads(json.dumps(first.as_json()))["request"]["group_id"] == "observed"
    never.assert_never()
    with pytest.raises(AssertionError, match="matched"):
        joins.assert_never()
    with pytest.raises(AssertionError, match="has not applied 99 times"):
        joins.wait(99, timeout=0)
    consumer.close()


def test_barrier_holds_until_released(kafka):
    topic = kafka.create_topic("held")
    barrier = kafka.barrier("Produce", topic=topic)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(produced, kafka, topic)
        barrier.wait_held(timeout=60)
        assert kafka.records(topic) == []
        barrier.remove()
        assert future.result(60) == [None]
    kafka.eventually_consumes(topic, ["0"])


def test_rules_outlive_a_restart(kafka):
    topic = kafka.create_topic("restarted")
    rule = kafka.faults.add(api="Produce", topic=topic, delay=0)
    kafka.restart()
    assert produced(kafka, topic) == [None]
    assert rule.applied == 1


def test_plan_is_loaded_and_written(kafka, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('seed = 9\n[[rules]]\nname = "a"\napi = "Produce"\ndelay = 0\n')
    (rule,) = kafka.faults.load(plan)
    assert (rule.name, kafka.faults.seed) == ("a", 9)
    assert 'name = "a"' in kafka.faults.plan
    with pytest.raises(PlanError) as caught:
        kafka.faults.load('[[rules]]\napi = "Fecth"\n')
    assert caught.value.what == "plan:2:1: rule refused"


def test_first_example_of_page_runs():
    page = Path(__file__).resolve().parents[3] / "docs" / "faults.md"
    block = page.read_text().split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", block], capture_output=True, text=True, check=True, timeout=300
    )
    offset, applied, *trace = done.stdout.splitlines()
    assert (offset, applied) == ("0", "2")
    assert [line.rpartition(": ")[2] for line in trace] == ["error NOT_LEADER_OR_FOLLOWER"] * 2


def test_cluster_without_faults_says_so():
    with pytest.raises(RuntimeError, match="faults=True"):
        _ = KafkaCluster().faults


def test_cluster_of_processes_has_faults():
    with KafkaCluster(brokers=2, controllers=1, faults=True) as cluster:
        topic = cluster.create_topic("clustered", partitions=2, replication=2)
        rule = cluster.faults.add(
            api="Produce", topic=topic, error="NOT_LEADER_OR_FOLLOWER", times=2
        )
        assert produced(cluster, topic) == [None]
        assert rule.applied == 2
        assert {each.peer.broker for each in rule.seen} <= {11, 12}
