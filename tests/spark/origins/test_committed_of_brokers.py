"""Transactions of one producer one after another, and among those of others, in one response of a broker."""

import pytest

from tests.librdkafka import Producer
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import read_request_of
from trimaran.testing import EmbeddedKafka

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WAIT_SECONDS = 60


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka() as running:
        yield running


def producer_of(kafka, name):
    made = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
    made.init_transactions(WAIT_SECONDS)
    return made


def begin(producer, topic, values):
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0


def values_of(kafka, topic, isolation):
    brokers = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic}
    parsed = LogOptions.parse({**brokers, "kafka.isolation.level": isolation})
    wanted = read_request_of(parsed, ("value",))
    batches = [batch for task in plan_log(parsed).tasks for batch in read_records(task, wanted)]
    return b"".join(row["value"] for batch in batches for row in batch.to_pylist())


def test_aborted_transactions_hide_no_later_ones(kafka):
    topic = kafka.create_topic("in-turn")
    one, other = producer_of(kafka, "one"), producer_of(kafka, "other")
    begin(other, topic, [b"A", b"B"])  # open during two transactions of `one`
    begin(one, topic, [b"a", b"b"])
    one.abort_transaction(WAIT_SECONDS)
    begin(one, topic, [b"c", b"d"])
    one.commit_transaction(WAIT_SECONDS)
    other.commit_transaction(WAIT_SECONDS)
    begin(one, topic, [b"e"])
    one.abort_transaction(WAIT_SECONDS)
    begin(other, topic, [b"C"])
    other.abort_transaction(WAIT_SECONDS)
    begin(one, topic, [b"f"])
    one.commit_transaction(WAIT_SECONDS)
    assert values_of(kafka, topic, "read_uncommitted") == b"ABabcdeCf"
    assert values_of(kafka, topic, "read_committed") == b"ABcdf"
