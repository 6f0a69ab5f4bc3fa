"""Clients under a plan: they produce, read in a group, or write a transaction, until the plan has acted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.librdkafka import AdminClient, Consumer, Producer
from trimaran.testing import EmbeddedKafka
from trimaran.testing.faults import AddedRule
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import kafka as kafka_python
else:
    kafka_python = imported_later("kafka")

SECONDS = 60
POLL_SECONDS = 0.1
RECORDS = ["0", "1", "2"]
QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 10,
    "topic.metadata.refresh.fast.interval.ms": 10,
}
GROUP = {
    **QUICK,
    "auto.offset.reset": "earliest",
    "auto.commit.interval.ms": 100,
    "check.crcs": True,
    "fetch.wait.max.ms": 50,
}
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 200}


def log_of(kafka: EmbeddedKafka, topic: str) -> list[str]:
    """Returns the values of all records that are committed."""
    return [(record.value or b"").decode() for record in kafka.records(topic)]


def fill(kafka: EmbeddedKafka, topic: str, values: Sequence[str] = RECORDS) -> None:
    """Writes records, without faults."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "fill"})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(SECONDS) == 0


def produce(kafka: EmbeddedKafka, topic: str, **settings: object) -> list[str]:
    """Sends three records by librdkafka, one after another; returns the names of errors."""
    errors: list[str] = []
    given = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": kafka.bootstrap, **QUICK, **given})
    for value in RECORDS:
        producer.produce(
            topic,
            value.encode(),
            partition=0,
            on_delivery=lambda error, _: errors.append(error.name()) if error else None,
        )
        assert producer.flush(SECONDS) == 0
    return errors


def fatal_error(kafka: EmbeddedKafka, topic: str) -> str:
    """Sends a record by librdkafka; returns the name of the error that ends the producer."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True, **QUICK})
    producer.produce(topic, b"0", partition=0)
    try:
        producer.flush(SECONDS)
    except KafkaException as error:
        return error.args[0].name()
    raise AssertionError("the producer goes on")


def read(
    kafka: EmbeddedKafka, topic: str, rules: Sequence[AddedRule], settings: Mapping[str, object]
) -> list[str]:
    """Reads by librdkafka until all rules have acted, a record was read after that, and the end of the partition is
    committed. Returns the values in the order in which they were first read.
    """
    group = f"group-{topic}"
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": group, **GROUP, **settings}
    )
    consumer.subscribe([topic])
    seen: dict[str, None] = {}
    times = {rule.name: rule.times or 1 for rule in kafka.faults.fault_set.rules()}
    are_spent = lambda: all(rule.applied >= times[rule.name] for rule in rules)  # noqa: E731
    _read_until(consumer, seen, lambda: {*RECORDS} <= {*seen} and are_spent())
    fill(kafka, topic, ["last"])
    _read_until(consumer, seen, lambda: "last" in seen)
    asking = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    end = [TopicPartition(topic, 0)]
    _read_until(
        consumer, seen, lambda: asking.committed(end, timeout=SECONDS)[0].offset == len(seen)
    )
    asking.close()
    consumer.close()
    return list(seen)


def _read_until(consumer: Consumer, seen: dict[str, None], is_enough: Callable[[], bool]) -> None:
    for _ in range(int(SECONDS / POLL_SECONDS)):
        if is_enough():
            return
        record = consumer.poll(POLL_SECONDS)
        if record is not None and record.error() is None:
            seen[(record.value() or b"").decode()] = None
    raise AssertionError(f"the consumer has read only {list(seen)}")


def first_error(
    kafka: EmbeddedKafka, topic: str, settings: Mapping[str, object]
) -> tuple[str, list[str]]:
    """Reads by librdkafka until an error is reported; returns its text, and the values before it."""
    own = {"bootstrap.servers": kafka.bootstrap, "group.id": f"group-{topic}"}
    consumer = Consumer({**own, **GROUP, **settings})
    consumer.subscribe([topic])
    seen = []
    try:
        for _ in range(int(SECONDS / POLL_SECONDS)):
            record = consumer.poll(POLL_SECONDS)
            if record is not None and record.error() is not None:
                return record.error().str(), seen
            if record is not None:
                seen.append((record.value() or b"").decode())
    finally:
        consumer.close()
    raise AssertionError("the consumer has reported no error")


def read_in_sessions(kafka: EmbeddedKafka, topic: str, rules: Sequence[AddedRule]) -> list[str]:
    """Reads by the fetch sessions of kafka-python until all rules have acted, and a record was read after that; returns
    the values.
    """
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=kafka.bootstrap,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        retry_backoff_ms=10,
    )
    consumer.assign([kafka_python.TopicPartition(topic, 0)])
    seen: list[str] = []
    has_last = False
    for _ in range(int(SECONDS / POLL_SECONDS)):
        for records in consumer.poll(int(POLL_SECONDS * 1000)).values():
            seen += [record.value.decode() for record in records]
        if "last" in seen:
            break
        if not has_last and seen == RECORDS and all(rule.applied == 2 for rule in rules):
            has_last = True
            fill(kafka, topic, ["last"])
    consumer.close()
    return seen


def transact(kafka: EmbeddedKafka, topic: str) -> str:
    """Writes three records in a transaction by librdkafka; if it must be aborted, writes them again in another one.
    Returns the name of a fatal error, if there is one.
    """
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"id-{topic}", **QUICK}
    )
    producer.init_transactions(SECONDS)
    for _ in range(2):
        producer.begin_transaction()
        try:
            for value in RECORDS:
                producer.produce(topic, value.encode(), partition=0)
            producer.commit_transaction(SECONDS)
        except KafkaException as error:
            reason = error.args[0]
            if not reason.txn_requires_abort():
                return reason.name()
            producer.abort_transaction(SECONDS)
        else:
            return ""
    raise AssertionError("the second transaction had to be aborted, too")


def create(kafka: EmbeddedKafka, topic: str) -> str:
    """Creates a topic by librdkafka, with a second attempt after an error; returns the name of the first error."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, **QUICK})
    first = ""
    for _ in range(2):
        future = admin.create_topics([NewTopic(topic, 1, 1)], request_timeout=SECONDS)[topic]
        try:
            future.result(SECONDS)
        except KafkaException as error:
            first = error.args[0].name()
        else:
            return first
    raise AssertionError(f"the topic was refused twice: {first}")


def log_in(kafka: EmbeddedKafka, user: str, password: str) -> list[str]:
    """Logs in by librdkafka, which retries after a refusal; returns the names of errors until brokers are listed."""
    errors: list[KafkaError] = []
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "error_cb": errors.append,
    }
    admin = AdminClient({**settings, **QUICK})
    assert admin.list_topics(timeout=SECONDS).brokers
    admin.poll(0)
    return [error.name() for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
