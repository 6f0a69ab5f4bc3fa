"""kafka-python with the protocol of clients of Kafka 0.8 to 0.10: Produce v0 to v2, Fetch v0 to v3, groups without
ApiVersions.
"""

import time
from contextlib import contextmanager

import pytest

from tests.clients.kafka_python import KafkaConsumer, KafkaProducer, TopicPartition
from tests.clients.records import ANSWER_SECONDS

RECORDS = [(None if i % 3 else b"key %d" % i, b"value %d" % i * 10) for i in range(60)]
TIME_MS = 1_700_000_000_000
BEFORE_TIMESTAMPS = (0, 10)
READING = [(0, 8, 2), (0, 9, 0), (0, 10, 0), (0, 10, 1), (2, 8, 0)]
# For lz4 of Kafka 0.8 and 0.9 it needs a library that is not installed.
LZ4_FROM = (0, 10)
SPOKEN = [
    ((0, 8, 2), None),
    ((0, 8, 2), "gzip"),
    ((0, 9, 0), "snappy"),
    ((0, 10, 0), None),
    ((0, 10, 0), "lz4"),
    ((0, 10, 1), "gzip"),
    ((0, 10, 1), "snappy"),
]


def produce(bootstrap, version, topic, codec):
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, api_version=version, compression_type=codec, linger_ms=20
    )
    try:
        times = {} if version < BEFORE_TIMESTAMPS else {"timestamp_ms": TIME_MS}
        sent = [
            producer.send(topic, key=key, value=value, partition=0, **times)
            for key, value in RECORDS
        ]
        return [item.get(ANSWER_SECONDS).offset for item in sent]
    finally:
        producer.close()


@contextmanager
def consumer_of(bootstrap, version, **options):
    """Yields a consumer that is always closed: otherwise its thread would draw random numbers during later tests."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        api_version=version,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer, count):
    found = []
    ends = time.monotonic() + ANSWER_SECONDS
    while len(found) < count:
        left = ends - time.monotonic()
        assert left > 0, f"{len(found)} of {count} records"
        # One poll for the whole join: kafka-python 3.0.12 loses an assignment that arrives between two polls.
        for records in consumer.poll(timeout_ms=left * 1000).values():
            found += records
    return found


@pytest.mark.parametrize(("version", "codec"), SPOKEN)
def test_produced_records_are_read_by_every_version(cluster, version, codec):
    topic = f"old-{'.'.join(map(str, version))}-{codec}"
    cluster.run("topics", "create", topic, "--partitions", "1")
    cluster.wait_for_topic(topic)
    assert produce(cluster.bootstrap, version, topic, codec) == list(range(len(RECORDS)))
    for reading in READING:
        if codec == "lz4" and reading < LZ4_FROM:
            continue
        with consumer_of(cluster.bootstrap, reading) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            found = read(consumer, len(RECORDS))
        assert [(r.offset, r.key, r.value) for r in found] == [
            (offset, *record) for offset, record in enumerate(RECORDS)
        ]
        timed = min(version, reading) >= BEFORE_TIMESTAMPS
        assert {r.timestamp for r in found} <= ({TIME_MS} if timed else {None, -1})


@pytest.mark.parametrize("version", [(0, 9, 0), (0, 10, 1)])
def test_group_resumes_at_its_committed_offset(cluster, version):
    name = ".".join(map(str, version))
    topic = f"old-group-{name}"
    cluster.run("topics", "create", topic, "--partitions", "1")
    cluster.wait_for_topic(topic)
    produce(cluster.bootstrap, version, topic, None)
    seen = []
    for _ in range(2):
        options = {"group_id": f"old-{name}", "max_poll_records": 20}
        with consumer_of(cluster.bootstrap, version, **options) as consumer:
            consumer.subscribe([topic])
            # Otherwise it would join again when it first learns of the topic, and lose its assignment.
            consumer.partitions_for_topic(topic)
            seen += read(consumer, 20)
            consumer.commit()
    assert [r.offset for r in seen] == list(range(40))


def test_old_client_without_group_commits_offsets(cluster):
    topic = "old-commits"
    cluster.run("topics", "create", topic, "--partitions", "1")
    cluster.wait_for_topic(topic)
    produce(cluster.bootstrap, (0, 8, 2), topic, None)
    place, group = TopicPartition(topic, 0), {"group_id": "old-commits"}
    with consumer_of(cluster.bootstrap, (0, 8, 2), **group) as consumer:
        consumer.assign([place])
        read(consumer, len(RECORDS))
        consumer.commit()
    with consumer_of(cluster.bootstrap, (0, 8, 2), **group) as consumer:
        consumer.assign([place])
        assert consumer.committed(place) == len(RECORDS)
