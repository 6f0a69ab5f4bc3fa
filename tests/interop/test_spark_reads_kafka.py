"""Our Spark sources over the directories of a running Apache Kafka return the same records as its consumers."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.librdkafka import AdminClient, Consumer, Producer

TOPIC, PARTITIONS, CODECS = "read-by-spark", 3, ("none", "gzip", "snappy", "lz4", "zstd")


def produce(bootstrap, codec, count):
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all"})
    for i in range(count):
        producer.produce(
            TOPIC,
            None if i % 50 == 7 else f"{codec} {i} ".encode() * (i % 7),
            None if i % 5 == 0 else f"key {i % 100}".encode(),
            headers=[("h", b"x"), ("null", None)] if i % 3 == 0 else None,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def commit_and_abort(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "spark"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(TOPIC, b"in a transaction", partition=0)
        producer.flush(30)
        end()


def consume(bootstrap):
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    rows, ended = [], set()
    while len(ended) < PARTITIONS:
        for message in consumer.consume(1000, 1.0):
            if message.error():
                ended.add(message.partition())
            else:
                stamp = message.timestamp()[1]
                place = (message.partition(), message.offset(), stamp)
                rows.append((*place, message.key(), message.value(), message.headers()))
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def as_bytes(value):
    return None if value is None else bytes(value)


@pytest.fixture(scope="module")
def spark():
    from trimaran.spark.sessions.session import session

    made = session(app_name="interop")
    yield made
    made.stop()


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_records_and_history_match_kafkas(kafka, spark):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topic = NewTopic(TOPIC, PARTITIONS, 2, config={"segment.bytes": str(1 << 20)})
    for future in admin.create_topics([topic]).values():
        future.result()
    for codec in CODECS:
        produce(kafka.bootstrap, codec, 2000)
    commit_and_abort(kafka.bootstrap)

    source = spark.read.format("kafka_log").options(
        subscribe=TOPIC, includeHeaders="true", end="log_end", splitBytes="20000"
    )
    frame = source.load(str(kafka.directory))
    rows = frame.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    read = [
        (
            *(r.partition, r.offset, r.ms, as_bytes(r.key), as_bytes(r.value)),
            [(h.key, as_bytes(h.value)) for h in r.headers] if r.headers else None,
        )
        for r in rows
    ]
    assert sorted(read, key=lambda row: row[:2]) == consume(kafka.bootstrap)
    assert len(read) == len(CODECS) * 2000 + 2

    history = spark.read.format("kafka_metadata").option("table", "partition_history")
    states = history.load(str(kafka.directory)).where(f"topic = '{TOPIC}' AND to_ts IS NULL")
    assert [r.state for r in states.collect()] == ["ok"] * PARTITIONS
