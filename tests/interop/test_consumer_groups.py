"""Groups of KIP-848: the Java consumers of 4.4 and 3.9 and Kafka's tools with our brokers and with Kafka's, and the
records of Kafka's coordinator.
"""

import contextlib
import json
import re
import subprocess

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from tests.broker.groups.driver import GROUP_DEPENDENCIES
from tests.interop import apache_kafka, java_programs, mixed_quorum
from tests.librdkafka import AdminClient, Consumer, Producer
from trimaran.broker.coordination.loader import CoordinatorLoader
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.registry import serde_of
from trimaran.broker.groups.shard import GroupCoordinatorShard

PARTITIONS = 4
# KIP-848 was a preview in 3.9, with version 0 of the heartbeat and member ids from the broker.
VERSIONS = [apache_kafka.VERSION, "3.9.1"]
# Waits for a coordinator. Java's clients wait by themselves, but librdkafka gives up after four requests.
BEGINNING = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
)
ANSWER_SECONDS = 10


@pytest.fixture(params=["ours", "kafka"])
def bootstrap(request):
    """Starts brokers of ours, then of Apache Kafka 4.4."""
    return request.getfixturevalue(request.param).bootstrap


def tool(name, *arguments):
    return apache_kafka.tool(name, *arguments).stdout


def until(condition):
    mixed_quorum.until(condition, "the group does not get there")


def create(bootstrap, topic):
    server = ("--bootstrap-server", bootstrap)
    tool("topics", *server, "--create", "--topic", topic, "--partitions", str(PARTITIONS))


def produce(bootstrap, topic, count):
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


@contextlib.contextmanager
def java_member(version, bootstrap, group, topic, protocol):
    """Starts Apache Kafka's verifiable consumer, which prints a line of JSON for each event."""
    command = java_programs.command(
        java_programs.class_path(version),
        apache_kafka.TOOLS["verifiable-consumer"],
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
        *("--group-protocol", protocol, "--reset-policy", "earliest", "--verbose"),
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def records_of(*outputs):
    """Returns partition and offset of every record that verifiable consumers reported."""
    lines = [json.loads(line) for text in outputs for line in text.splitlines()]
    return [(line["partition"], line["offset"]) for line in lines if line["name"] == "record_data"]


def described(bootstrap, group):
    """Returns type, state and number of members; a new Python client is cheaper than a JVM for each call."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)
    try:
        found = asked[group].result()
    except KafkaException as error:
        if error.args[0].retriable() or error.args[0].code() in BEGINNING:
            return "", "", 0
        raise
    return found.type.name, found.state.name, len(found.members)


def committed(bootstrap, group, topic):
    """Returns the sum of committed offsets over all partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found = consumer.committed(places, timeout=30)
    consumer.close()
    return sum(max(0, record.offset) for record in found)


@pytest.mark.client("Java", "consumer groups")
@pytest.mark.parametrize("version", VERSIONS)
def test_java_consumer_and_kafkas_tools_work(bootstrap, version):
    name = f"kip848-{version}"
    create(bootstrap, name)
    produce(bootstrap, name, 400)
    group = ("--bootstrap-server", bootstrap, "--group", name)
    member = (version, bootstrap, name, name, "consumer")
    with java_member(*member):
        until(lambda: described(bootstrap, name)[1:] == ("STABLE", 1))
        with java_member(*member):
            until(lambda: described(bootstrap, name)[1:] == ("STABLE", 2))
            members = tool("consumer-groups", *group, "--describe", "--members", "--verbose")
            assert len(re.findall(rf"^{name} ", members, re.MULTILINE)) == 2, members
            groups = tool("groups", "--bootstrap-server", bootstrap, "--list")
            assert re.search(rf"^{name}\s+Consumer\b", groups, re.MULTILINE), groups
            until(lambda: committed(bootstrap, name, name) == 400)
    until(lambda: described(bootstrap, name)[1:] == ("EMPTY", 0))
    offsets = tool("consumer-groups", *group, "--describe", "--offsets")
    assert len(re.findall(rf"{name}\s+\d\s+100\s+100\s+0", offsets)) == PARTITIONS, offsets
    tool(
        "consumer-groups",
        *group,
        "--reset-offsets",
        "--to-earliest",
        "--topic",
        name,
        "--execute",
    )
    deleted = tool("consumer-groups", *group, "--delete")
    assert "was successful" in deleted


@pytest.mark.client("Java", "consumer groups")
@pytest.mark.parametrize("version", VERSIONS)
def test_live_group_of_java_consumers_moves_and_returns(bootstrap, version):
    name = f"moving848-{version}"
    create(bootstrap, name)
    produce(bootstrap, name, 40)
    with java_member(version, bootstrap, name, name, "classic") as old:
        until(lambda: described(bootstrap, name)[1:] == ("STABLE", 1))
        assert described(bootstrap, name)[0] == "CLASSIC"
        with java_member(version, bootstrap, name, name, "consumer") as new:
            until(lambda: described(bootstrap, name)[1:] == ("STABLE", 2))
            assert described(bootstrap, name)[0] == "CONSUMER"
            produce(bootstrap, name, 40)
            until(lambda: committed(bootstrap, name, name) == 80)
            new.terminate()
            from_new = new.communicate(timeout=30)[0]
        until(lambda: described(bootstrap, name) == ("CLASSIC", "STABLE", 1))
        produce(bootstrap, name, 40)
        until(lambda: committed(bootstrap, name, name) == 120)
        old.terminate()
        from_old = old.communicate(timeout=30)[0]
    everything = {(p, o) for p in range(PARTITIONS) for o in range(30)}
    assert set(records_of(from_old, from_new)) == everything


def loaded(directory):
    """Returns the shards of `__consumer_offsets` in a directory, as our coordinator loads them."""
    for path in sorted(directory.glob("__consumer_offsets-*/00000000000000000000.log")):
        loader = CoordinatorLoader(serde_of())
        loader.feed(path.read_bytes())
        shard = GroupCoordinatorShard(GroupLimits(), lambda *_: True, GROUP_DEPENDENCIES)
        loader.replay_into(shard)
        yield shard


def test_records_of_kafkas_coordinator_are_loaded(tmp_path):
    with apache_kafka.running(tmp_path, controllers=1, brokers=1) as kafka:
        create(kafka.bootstrap, "theirs")
        produce(kafka.bootstrap, "theirs", 8)
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["theirs"])
        until(lambda: consumer.poll(0.5) is not None and len(consumer.assignment()) == PARTITIONS)
        consumer.commit(asynchronous=False)
        (broker,) = kafka.brokers
        kafka.kill(broker)
        found = [
            shard.store.of("consumer")["g"]
            for shard in loaded(broker.directory)
            if "g" in shard.store.of("consumer")
        ]
        kafka.start_node(broker)
        kafka.wait_ready()
        consumer.close()
    (group,) = found
    assert group.epoch == group.assignment_epoch >= 1
    assert group.state.value == "Stable"
    (member,) = group.members.values()
    assert member.subscribed_names == ("theirs",)
    (owned,) = member.assigned.values()
    assert owned.keys() == set(range(PARTITIONS))
    assert not member.uses_classic_protocol
