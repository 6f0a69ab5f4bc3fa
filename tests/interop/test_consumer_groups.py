"""Groups of KIP-848: Apache Kafka 4.3's consumer and tools with our brokers, and what its coordinator has written."""

import contextlib
import json
import re
import subprocess

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.coordination.loader import CoordinatorLoader
from broker.groups.limits import GroupLimits
from broker.groups.records import GroupRecordSerde
from broker.groups.shard import GroupCoordinatorShard
from tests.broker.groups.driver import SURROUNDINGS
from tests.interop import apache_kafka, mixed_quorum

PARTITIONS = 4


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
def java_member(bootstrap, group, topic, protocol):
    """Apache Kafka's own consumer, by its verifiable one: a line of JSON for each thing that happens to it."""
    command = apache_kafka.java(
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
    """Partition and offset of every record that verifiable consumers told of."""
    lines = [json.loads(line) for text in outputs for line in text.splitlines()]
    return [(one["partition"], one["offset"]) for one in lines if one["name"] == "record_data"]


def described(bootstrap, group):
    """Type, state and number of members; asked by a client without a memory, and not by a JVM each time."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_consumer_groups([group])[group].result(30)
    return found.type.name, found.state.name, len(found.members)


def committed(bootstrap, group, topic):
    """Of all partitions together."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    found = consumer.committed(places, timeout=30)
    consumer.close()
    return sum(max(0, one.offset) for one in found)


def test_the_java_consumer_and_kafkas_tools(ours):
    create(ours.bootstrap, "kip848")
    produce(ours.bootstrap, "kip848", 400)
    group = ("--bootstrap-server", ours.bootstrap, "--group", "java848")
    with java_member(ours.bootstrap, "java848", "kip848", "consumer"):
        until(lambda: described(ours.bootstrap, "java848")[1:] == ("STABLE", 1))
        with java_member(ours.bootstrap, "java848", "kip848", "consumer"):
            until(lambda: described(ours.bootstrap, "java848")[1:] == ("STABLE", 2))
            members = tool("consumer-groups", *group, "--describe", "--members", "--verbose")
            assert len(re.findall(r"^java848 ", members, re.MULTILINE)) == 2, members
            groups = tool("groups", "--bootstrap-server", ours.bootstrap, "--list")
            assert re.search(r"^java848\s+Consumer\b", groups, re.MULTILINE), groups
    until(lambda: described(ours.bootstrap, "java848")[1:] == ("EMPTY", 0))
    offsets = tool("consumer-groups", *group, "--describe", "--offsets")
    assert len(re.findall(r"kip848\s+\d\s+100\s+100\s+0", offsets)) == PARTITIONS, offsets
    tool(
        "consumer-groups",
        *group,
        "--reset-offsets",
        "--to-earliest",
        "--topic",
        "kip848",
        "--execute",
    )
    deleted = tool("consumer-groups", *group, "--delete")
    assert "was successful" in deleted


def test_a_live_group_of_java_consumers_moves_there_and_back(ours):
    create(ours.bootstrap, "moving848")
    produce(ours.bootstrap, "moving848", 40)
    with java_member(ours.bootstrap, "javamove", "moving848", "classic") as old:
        until(lambda: described(ours.bootstrap, "javamove")[1:] == ("STABLE", 1))
        assert described(ours.bootstrap, "javamove")[0] == "CLASSIC"
        with java_member(ours.bootstrap, "javamove", "moving848", "consumer") as new:
            until(lambda: described(ours.bootstrap, "javamove")[1:] == ("STABLE", 2))
            assert described(ours.bootstrap, "javamove")[0] == "CONSUMER"
            produce(ours.bootstrap, "moving848", 40)
            until(lambda: committed(ours.bootstrap, "javamove", "moving848") == 80)
            new.terminate()
            from_new = new.communicate(timeout=30)[0]
        until(lambda: described(ours.bootstrap, "javamove") == ("CLASSIC", "STABLE", 1))
        produce(ours.bootstrap, "moving848", 40)
        until(lambda: committed(ours.bootstrap, "javamove", "moving848") == 120)
        old.terminate()
        from_old = old.communicate(timeout=30)[0]
    everything = {(p, o) for p in range(PARTITIONS) for o in range(30)}
    assert set(records_of(from_old, from_new)) == everything


def loaded(directory):
    """The shards of `__consumer_offsets` in a directory, as a coordinator of ours loads them."""
    for path in sorted(directory.glob("__consumer_offsets-*/00000000000000000000.log")):
        loader = CoordinatorLoader(GroupRecordSerde())
        loader.feed(path.read_bytes())
        shard = GroupCoordinatorShard(GroupLimits(), lambda *_: True, SURROUNDINGS)
        loader.replay_into(shard)
        yield shard


def test_records_of_apache_kafka_are_loaded(tmp_path):
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
            shard.store.consumer_groups["g"]
            for shard in loaded(broker.directory)
            if "g" in shard.store.consumer_groups
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
