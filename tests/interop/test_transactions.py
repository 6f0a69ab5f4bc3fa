"""Transactions of Kafka 4.4's Java producer and tools on our brokers; coordinators of both kinds take over from each
other.
"""

import re
from contextlib import closing

import pytest
from confluent_kafka import TopicPartition

from tests.interop import apache_kafka
from tests.interop.controllers import controllers
from tests.interop.mixed_quorum import until
from tests.librdkafka import AdminClient, Consumer, Producer

OURS, KAFKAS = 11, 12
RECORDS = 3000
CALL_SECONDS = 60


def tool(name, *arguments):
    return apache_kafka.tool(name, *arguments, timeout=120).stdout


@pytest.mark.client("Java", "transactions", version=apache_kafka.VERSION)
def test_javas_transactional_producer_and_kafkas_tools(ours):
    """The producer uses transaction.version 2: our brokers add partitions, and every end bumps the epoch."""
    server = ("--bootstrap-server", ours.bootstrap)
    tool("topics", *server, "--create", "--topic", "jvm-tx", "--partitions", "2")
    tool(
        "producer-perf-test", "--topic", "jvm-tx", "--num-records", str(RECORDS), "--record-size", "100",
        "--throughput", "3000", "--transactional-id", "jvm", "--transaction-duration-ms", "50",
        "--producer-props", f"bootstrap.servers={ours.bootstrap}",
    )  # fmt: skip
    text = tool(
        "console-consumer", *server, "--topic", "jvm-tx", "--from-beginning", "--max-messages", str(RECORDS),
        "--timeout-ms", "30000", "--isolation-level", "read_committed",
    )  # fmt: skip
    assert len(text.splitlines()) == RECORDS
    listed = [line.split() for line in tool("transactions", *server, "list").splitlines()]
    [mine] = [line for line in listed if line[0] == "jvm"]
    assert mine[-1] in ("CompleteCommit", "PrepareCommit")
    described = tool("transactions", *server, "describe", "--transactional-id", "jvm")
    epoch = int(
        dict(zip(*(line.split() for line in described.splitlines()[:2]), strict=False))[
            "ProducerEpoch"
        ]
    )
    assert epoch > 1, described
    hanging = tool("transactions", *server, "find-hanging", "--topic", "jvm-tx")
    assert not re.search(r"^jvm-tx", hanging, re.MULTILINE), hanging


def coordinator(bootstrap):
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = admin.list_topics("__transaction_state", timeout=10).topics
    partitions = topics["__transaction_state"].partitions.values()
    leaders, isrs = (
        {partition.leader for partition in partitions},
        {frozenset(partition.isrs) for partition in partitions},
    )
    return (min(leaders), set(min(isrs))) if len(leaders) == len(isrs) == 1 else (-1, set())


def committed(bootstrap, count):
    """Returns the values that a read_committed reader finds."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "r",
        "isolation.level": "read_committed",
    }
    with closing(Consumer({**settings})) as consumer:
        consumer.assign([TopicPartition("tx", 0, 0)])
        found = []
        while len(found) < count:
            message = consumer.poll(CALL_SECONDS)
            assert message is not None, f"{found} of {count}"
            assert message.error() is None
            found.append(message.value())
    return found


@pytest.mark.parametrize("controller", ["ours", "kafka"])
def test_coordinators_of_both_kinds_replace_each_other(tmp_path, controller):
    """Each coordinator finds an open transaction with the other's records, and ends it as its producer requests."""
    with controllers(tmp_path, {1: controller}, {OURS: "ours", KAFKAS: "kafka"}) as cluster:
        cluster.format(1, "--standalone")
        cluster.start(1)
        cluster.start_brokers()
        both = {OURS, KAFKAS}
        bootstrap = cluster.bootstrap(OURS, KAFKAS)
        server = ("--bootstrap-server", bootstrap, "--create", "--config", "min.insync.replicas=1")
        assigned = f"{OURS}:{KAFKAS}"
        tool("topics", *server, "--topic", "tx", "--replica-assignment", assigned)
        state = ("--topic", "__transaction_state", "--config", "cleanup.policy=compact")
        # The number must be that of the brokers' files; otherwise Kafka's coordinator loads no partition.
        tool("topics", *server, *state, "--replica-assignment", ",".join([assigned] * 50))
        until(lambda: coordinator(bootstrap) == (OURS, both), "our coordinator")
        expected = []
        for number in (0, 1):
            gone = coordinator(bootstrap)[0]
            left = OURS + KAFKAS - gone
            producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
            producer.init_transactions(CALL_SECONDS)
            for name, ends in (("first", True), ("never", False), ("open", True)):
                producer.begin_transaction()
                value = f"{name} {number}".encode()
                producer.produce("tx", value=value, partition=0)
                producer.flush(CALL_SECONDS)
                if name == "open":
                    cluster.kill(gone)
                    until(lambda who=left: coordinator(cluster.address(who))[0] == who, "the other")
                if ends:
                    producer.commit_transaction(CALL_SECONDS)
                    expected.append(value)
                else:
                    producer.abort_transaction(CALL_SECONDS)
            assert committed(cluster.address(left), len(expected)) == expected
            cluster.start(gone)
            until(lambda: coordinator(bootstrap)[1] == both, "both in sync")
        final = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
        final.init_transactions(CALL_SECONDS)
        assert committed(bootstrap, len(expected)) == expected
