"""Kafka in this process, as tests of other projects use it: with their clients, and without pytest too."""

import asyncio  # noqa: TID251 - aiokafka is made for it
import threading
import unittest

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.librdkafka import Consumer, Producer
from trimaran.node.config.config_def import ConfigError
from trimaran.testing import EmbeddedKafka
from trimaran.wire.errors import KafkaError


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka({"auto.create.topics.enable": "false"}) as running:
        yield running


def produce(kafka, topic, *values):
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(20) == 0


def test_produced_records_reach_another_client(kafka):
    topic = kafka.create_topic("plain", partitions=2)
    produce(kafka, topic, b"a", b"b")
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert {record.value() for record in consumer.consume(2, timeout=20)} == {b"a", b"b"}
    consumer.close()


def test_records_are_compared_with_their_multiplicity(kafka):
    topic = kafka.create_topic("counted", configs={"retention.ms": "-1"})
    produce(kafka, topic, b"a", b"b", b"a")
    found = kafka.eventually_consumes(topic, ["a", "a", b"b"])
    assert [record.offset for record in found] == [0, 1, 2]
    with pytest.raises(AssertionError, match=r"missing b'c', too much b'a'"):
        kafka.eventually_consumes(topic, ["a", "b", "c"], timeout=0)


def test_aborted_records_are_not_consumed(kafka):
    topic = kafka.create_topic("transactional")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"})
    producer.init_transactions(20)
    for value, end in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(20)
        end(20)
    kafka.eventually_consumes(topic, [b"yes"])
    assert [record.value for record in kafka.records(topic, committed=False)] == [b"no", b"yes"]


def test_settings_apply_and_refusals_are_raised(kafka):
    with pytest.raises(KafkaError, match="already exists"):
        kafka.create_topic(kafka.create_topic("twice"))
    kafka.delete_topic("twice")
    kafka.create_topic("twice")


async def _by_asyncio(kafka, topic):
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
    await producer.start()
    await producer.send_and_wait(topic, b"x")
    await producer.stop()
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        return (await asyncio.wait_for(consumer.getone(), 20)).value
    finally:
        await consumer.stop()


def test_asyncio_client_runs_in_same_thread(kafka):
    assert asyncio.run(_by_asyncio(kafka, kafka.create_topic("asyncio"))) == b"x"


def test_unittest():
    class Case(unittest.TestCase):
        def test_it(self):
            kafka = self.enterContext(EmbeddedKafka())
            topic = kafka.create_topic("t")
            produce(kafka, topic, b"a")
            assert len(kafka.eventually_consumes(topic, ["a"])) == 1

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
    assert (result.testsRun, result.failures, result.errors) == (1, [], [])


def test_data_survives_restart_but_not_the_end():
    before = _node_threads()
    with EmbeddedKafka() as kafka:
        where = kafka.bootstrap
        topic = kafka.create_topic("t")
        produce(kafka, topic, b"a")
        kafka.restart()
        assert kafka.bootstrap == where
        kafka.eventually_consumes(topic, ["a"])
        directory = kafka._directory
    assert not directory.exists()
    assert _node_threads() == before
    kafka.stop()


def _node_threads():
    return sum(thread.name == "kafka" for thread in threading.enumerate())


def test_node_with_acls_registers_at_once(caplog):
    """The controller refuses the first registration, before it has loaded the ACLs, with an error that is retried."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with EmbeddedKafka(settings) as kafka:
        kafka.create_topic("t")
    assert [line.message for line in caplog.records if "refused" in line.message] == []


def test_wrong_setting_is_an_error_naming_it():
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        EmbeddedKafka({"num.partitions": "many"}).start()
