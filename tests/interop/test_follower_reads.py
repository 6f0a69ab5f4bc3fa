"""Consumers with a configured rack read from the replica there (KIP-392): librdkafka, Java and franz-go."""

import json
import re
import subprocess
import time
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition, libversion

from tests.interop import apache_kafka, franz_go
from tests.interop.suites.clusters import BROKERS, cluster
from tests.librdkafka import Consumer, Producer

TOPIC, RECORDS = "racks", 3000
LEADER, NEAR, FAR = BROKERS
RACK = f"RACK{NEAR}"
SECONDS = 60


@pytest.fixture(scope="module")
def racks(tmp_path_factory):
    """Starts three brokers, each in its own rack, and a topic led by the first of them."""
    with cluster("ours", tmp_path_factory.mktemp("racks")) as found:
        apache_kafka.tool(
            "topics", "--bootstrap-server", found.bootstrap(*BROKERS), "--create", "--topic", TOPIC,
            "--replica-assignment", f"{LEADER}:{NEAR}:{FAR}",
        )  # fmt: skip
        produce(found, RECORDS)
        yield found


def produce(racks, count):
    producer = Producer({"bootstrap.servers": racks.bootstrap(*BROKERS), "linger.ms": 1})
    for number in range(count):
        producer.produce(TOPIC, value=b"%d" % number + b"x" * 500)
    assert producer.flush(SECONDS) == 0


def assert_near(given):
    """Asserts that the near replica served records after the leader redirected the consumer, and the far one none."""
    assert given.get(NEAR, 0) > 0, given
    assert not given.get(FAR), given


@pytest.mark.client("librdkafka", "nearest replica", version=libversion()[0])
def test_librdkafka(racks):
    seen = []
    settings = {
        "bootstrap.servers": racks.bootstrap(*BROKERS),
        "client.rack": RACK,
        "group.id": "rdkafka",
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": 20_000,  # small, so that there are many fetches
        "statistics.interval.ms": 100,
        "stats_cb": lambda text: seen.append(json.loads(text)),
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values = [consumer.poll(SECONDS).value() for _ in range(RECORDS)]
        assert [int(value.rstrip(b"x")) for value in values] == list(range(RECORDS))
        deadline = time.monotonic() + SECONDS
        while not seen or fetching_from(seen[-1]) != NEAR:
            assert time.monotonic() < deadline
            consumer.poll(0.1)
    assert_near({broker["nodeid"]: received(broker) for broker in seen[-1]["brokers"].values()})


def fetching_from(statistics):
    return statistics["topics"][TOPIC]["partitions"]["0"]["broker"]


def received(broker):
    """Returns the number of fetches to a broker, which is 0 for the far one."""
    return broker["req"].get("Fetch", 0)


@pytest.mark.client("Java", "nearest replica", version=apache_kafka.VERSION)
def test_java(racks):
    command = apache_kafka.java(
        apache_kafka.TOOLS["console-consumer"], "--bootstrap-server", racks.bootstrap(*BROKERS),
        "--topic", TOPIC, "--from-beginning", "--max-messages", str(RECORDS),
        "--command-property", f"client.rack={RACK}",
        "--command-property", "max.partition.fetch.bytes=20000",
        level="debug",
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS * 2, check=False)
    assert len(re.findall(r"^\d+x+$", done.stdout, re.MULTILINE)) == RECORDS, done.stderr[-2000:]
    asked = re.findall(
        r"Added \w+ fetch request for partition .* to node \S+ \(id: (\d+)", done.stderr
    )
    given = {int(node): asked.count(node) for node in set(asked)}
    assert_near(given)
    assert given[NEAR] > given[LEADER], given


@pytest.mark.client("franz-go", "nearest replica", version=franz_go.VERSION)
@pytest.mark.skipif(franz_go.why_not() is not None, reason="needs go on the PATH")
def test_franz_go(racks):
    given = franz_go.read_in_rack(racks.bootstrap(*BROKERS), TOPIC, RACK, RECORDS)
    assert_near(given)
    assert sum(given.values()) >= RECORDS


def test_reading_survives_death_and_return_of_near_broker(racks):
    """The consumer falls back to the leader, which later redirects it to its rack again."""
    settings = {
        "bootstrap.servers": racks.bootstrap(*BROKERS),
        "client.rack": RACK,
        "group.id": "dies",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found = [read(consumer) for _ in range(RECORDS)]
        racks.kill(NEAR)
        produce(racks, 100)
        found += [read(consumer) for _ in range(100)]
        racks.start(NEAR)
        produce(racks, 100)
        found += [read(consumer) for _ in range(100)]
    assert found == list(range(RECORDS + 200))


def read(consumer):
    message = consumer.poll(SECONDS)
    assert message is not None
    assert message.error() is None, message.error()
    return message.offset()
