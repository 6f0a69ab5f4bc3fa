"""Our source returns the rows of Spark's own Kafka connector for each option, on Apache Kafka and on our cluster, with
aborted transactions.
"""

import json
import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import until
from tests.librdkafka import AdminClient, Producer

TOPIC, PARTITIONS = "beside-the-connector", 3
START = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
EACH = 300
READ_COMMITTED = {"kafka.isolation.level": "read_committed"}


def offsets(*numbers):
    return json.dumps({TOPIC: {str(i): number for i, number in enumerate(numbers)}})


CASES = {
    "all": {},
    "headers": {"includeHeaders": "true"},
    "pattern": {"subscribePattern": "beside.*"},
    "assign": {"assign": json.dumps({TOPIC: [0, 2]})},
    "offsets": {"startingOffsets": offsets(7, -2, 100), "endingOffsets": offsets(400, 33, -1)},
    "from an offset, in many tasks": {"startingOffsets": offsets(50, 60, -2), "minPartitions": "9"},
    "times": {"startingTimestamp": str(START + 400), "endingTimestamp": str(START + 900)},
    "times by partition": {
        "startingOffsetsByTimestamp": offsets(START + 100, START + 200, START),
        "endingOffsetsByTimestamp": offsets(START + 1000, START + 700, START + 9_999_999),
    },
    "a time that no record has reached": {
        "startingOffsetsByTimestamp": offsets(START + 9_999_999, START + 300, START),
        "startingOffsetsByTimestampStrategy": "latest",
    },
}
COMMITTED_CASES = {
    "committed": READ_COMMITTED,
    "committed, in many tasks": {**READ_COMMITTED, "minPartitions": "12", "includeHeaders": "true"},
    "committed, from inside a transaction": {
        **READ_COMMITTED,
        "startingOffsets": offsets(1503 // 3, -2, 510),
    },
}


def fill(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    # The records have old timestamps, so retention would delete them during the test.
    config = {"segment.bytes": str(1 << 20), "retention.ms": "-1"}
    topic = NewTopic(TOPIC, PARTITIONS, 2, config=config)
    admin.create_topics([topic])[TOPIC].result(60)
    until(lambda: TOPIC in admin.list_topics(timeout=20).topics, "the topic is known")
    number = 0
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "acks": "all"}
        )
        for _ in range(EACH):
            producer.produce(
                TOPIC,
                None if number % 50 == 7 else f"{codec} {number} ".encode() * (number % 7),
                None if number % 5 == 0 else f"key {number % 100}".encode(),
                partition=number % PARTITIONS,
                timestamp=START + number,
                headers=[("h", b"x"), ("null", None)] if number % 3 == 0 else None,
            )
            number += 1
        assert producer.flush(60) == 0


def commit_and_abort(bootstrap):
    """Writes pairs of interleaved transactions, and one that stays open."""
    producers = []
    for name in ("a", "b", "open"):
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"connector-{name}",
                "transaction.timeout.ms": 900_000,  # one stays open during the comparison
            }
        )
        producer.init_transactions(60)
        producers.append(producer)
    first, second, last = producers
    for turn in range(6):
        for producer in (first, second):
            producer.begin_transaction()
            for i in range(9):
                producer.produce(
                    TOPIC, b"t%d" % i, partition=i % PARTITIONS, timestamp=START + 5000
                )
            producer.flush(60)
        ends = (Producer.commit_transaction, Producer.abort_transaction)
        ends[turn % 2](first)
        ends[turn % 3 == 0](second)
    last.begin_transaction()
    last.produce(TOPIC, b"undecided", partition=1)
    last.flush(60)
    first.begin_transaction()
    first.produce(TOPIC, b"behind", partition=1)
    first.flush(60)
    first.commit_transaction()
    return last


def compared(bootstrap, directory, cases):
    command = [sys.executable, "-m", "tests.interop.spark_connector", bootstrap, TOPIC]
    given = [{"name": name, "options": options} for name, options in cases.items()]
    done = subprocess.run(
        [*command, *([str(directory)] if directory else [])],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def assert_equal(found, count):
    assert len(found) == count
    for item in found:
        assert item["rows"] > 0, item
        assert item["columns"], item
        assert (item["only_theirs"], item["only_ours"]) == (0, 0), item


def test_on_apache_kafka(kafka):
    fill(kafka.bootstrap)
    undecided = commit_and_abort(kafka.bootstrap)
    found = compared(kafka.bootstrap, kafka.directory, {**CASES, **COMMITTED_CASES})
    assert_equal(found, 2 * (len(CASES) + len(COMMITTED_CASES)))
    rows = {item["case"]: item["rows"] for item in found}
    assert (
        rows["committed"] < rows["all"] - 12
    )  # besides markers, aborted and undecided records are omitted
    undecided.abort_transaction()


@pytest.mark.parametrize("cases", [CASES], ids=["all"])
def test_on_ours(ours, cases):
    fill(ours.bootstrap)
    assert_equal(compared(ours.bootstrap, None, cases), len(cases))


def test_offsets_are_known_to_be_those_of_kafka(kafka):
    """The compared end offsets are those of the cluster; otherwise two empty frames would be equal."""
    from tests.librdkafka import Consumer

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "none"})
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, p)) for p in range(PARTITIONS)]
    consumer.close()
    assert all(high > 500 for _, high in ends)
