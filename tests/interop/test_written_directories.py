"""Directories that we wrote: the tools of Kafka 3.9 and 4.4 print the same as ours. Kafka then starts on them, serves
the same records, and writes more (with transactions); then we continue.
"""

import json
import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from tests.interop.conftest import trimaran
from tests.interop.fixtures.kafkas import OneNode
from tests.interop.fixtures.make import send
from tests.interop.fixtures.printed import consumed, printed
from tests.librdkafka import AdminClient, Consumer, Producer
from tests.log.fixtures import compare

pytestmark = pytest.mark.interop
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Us:
    """Our node on a directory that Kafka's own tool formatted, with Kafka's own properties file."""

    def __init__(self, node):
        self.node = node

    def __enter__(self):
        command = [sys.executable, "-m", "trimaran", "server", "start", "-c", str(self.node.file)]
        self.process = subprocess.Popen(command)
        self.node.wait_ready()
        return self.node.bootstrap

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(60) == 0


def create(bootstrap, *topics):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"index.interval.bytes": "200"}
    made = admin.create_topics([NewTopic(topic, 1, 1, config=config) for topic in topics])
    for future in made.values():
        future.result(30)


def write(bootstrap, topic, first, batches, **settings):
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, **settings})
    for turn in range(first, first + batches):
        send(producer, topic, turn, 5, headers=True)
        assert producer.flush(30) == 0


def write_transactions(bootstrap, first):
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 50})
    producer.init_transactions(60)
    for turn in range(first, first + 6):
        producer.begin_transaction()
        send(producer, "transactions", turn, 5, headers=True)
        producer.flush(30)
        producer.abort_transaction(30) if turn % 3 == 1 else producer.commit_transaction(30)


def read(bootstrap, topic):
    """Returns (offset, timestamp, key, value) of the committed records, read by librdkafka."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            break
        key, value = (text(part) for part in (message.key(), message.value()))
        found.append((message.offset(), message.timestamp()[1], key, value))
    consumer.close()
    return found


def text(data):
    return "null" if data is None else data.decode()


def differences(version, directory):
    """Returns the files for which Kafka's DumpLogSegments differs from our reading, and the number of all files."""
    rows = printed(version, directory)
    files = dict.fromkeys(row["file"] for row in rows if row["kind"] == "batch")
    found = []
    for file in files:
        theirs = [row for row in rows if row["file"] == file]
        differ = not file.startswith("__") and compare.records_differ(directory, theirs, file)
        if differ or compare.batches_differ(directory, theirs, file):
            found.append(file)
    return found, len(files)


@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_we_and_kafka_take_turns_on_one_directory(version, tmp_path):
    node = OneNode(version, tmp_path)
    topics = [f"codec-{codec}" for codec in CODECS]
    with Us(node) as bootstrap:
        create(bootstrap, *topics, "transactions")
        for codec, topic in zip(CODECS, topics, strict=True):
            settings = {"compression.type": codec, "enable.idempotence": codec == "lz4"}
            write(bootstrap, topic, 0, 12, **settings)
        served = {topic: read(bootstrap, topic) for topic in [*topics, "transactions"]}
    found, count = differences(version, node.data)
    assert (found, count >= len(topics)) == ([], True)
    done = trimaran("logs", "dump", str(node.data), "--verify", "-o", "jsonl", check=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == []
    with node.running() as bootstrap:
        for topic in topics:
            ours = served[topic]
            theirs = consumed(node, bootstrap, topic, "read_committed", len(ours))
            assert [
                tuple(r[k] for k in ("offset", "timestamp", "key", "value")) for r in theirs
            ] == ours
            assert read(bootstrap, topic) == ours
        write_transactions(bootstrap, 20)
        for topic in topics:
            write(bootstrap, topic, 20, 3)
        more = {topic: read(bootstrap, topic) for topic in served}
    assert all(len(more[topic]) > len(served[topic]) for topic in served)
    with Us(node) as bootstrap:
        assert {topic: read(bootstrap, topic) for topic in served} == more
        write(bootstrap, topics[0], 40, 1)
        assert len(read(bootstrap, topics[0])) == len(more[topics[0]]) + 4
