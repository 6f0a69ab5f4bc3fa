"""Kafka 4.3's tools of groups and transactions say of our cluster what they say of Apache Kafka's, word for word.

The same happens on both. Ids that a cluster hands out, addresses and times are left out; names of columns, values,
errors and exit codes are compared.
"""

import contextlib
import json
import re

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.interop import apache_kafka
from tests.interop.mixed_quorum import until

TOPIC, EMPTY, ALIVE, CLASSIC = "same-text", "same-empty", "same-alive", "same-classic"
RECORDS = 20
CALL_SECONDS = 60
# What a cluster or a clock decides.
VOLATILE = {
    "Coordinator",
    "CoordinatorId",
    "COORDINATOR",
    "ProducerId",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "LastTimestamp",
    "CoordinatorEpoch",
}
# Members' ids, addresses of coordinators, and how a log line of the tool begins.
UNSTABLE_TEXT = [
    (r"rdkafka-[0-9a-f-]{36}", "MEMBER"),
    (r"\b[A-Za-z0-9_-]{22}\b", "MEMBER"),
    (r"127\.0\.0\.1:\d+ *\(\d+\)", "COORDINATOR"),
    (r"\[\d{4}-\d\d-\d\d [\d:,]+\] ", ""),
]


def tool(name, bootstrap, *arguments):
    done = apache_kafka.tool(
        name, "--bootstrap-server", bootstrap, *arguments, check=False, timeout=120
    )
    text = done.stdout + done.stderr
    for pattern, word in UNSTABLE_TEXT:
        text = re.sub(pattern, word, text)
    return done.returncode, sorted(map(stable_columns_of(text), text.splitlines()))


def stable_columns_of(text):
    """A function from a line to its words, without those below the headings that are volatile."""
    lines = [line for line in text.splitlines() if line.strip()]
    headings = lines[0].split() if lines else []
    dropped = {index for index, name in enumerate(headings) if name in VOLATILE}
    return lambda line: [
        word for index, word in enumerate(line.split()) if index not in dropped or line == lines[0]
    ]


@contextlib.contextmanager
def member(bootstrap, group, protocol):
    """An only member, which has all partitions."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "client.id": "same",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    consumer.subscribe([TOPIC])

    def is_assigned():
        consumer.poll(0.1)
        return len(consumer.assignment()) == 2

    until(is_assigned, "partitions of the member")
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 4)], asynchronous=False)
    yield
    consumer.close()


def transactions(bootstrap):
    """One that is committed, one that is aborted, and one that stays open, whose producer is returned."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "transaction.timeout.ms": 600_000}
    for name in ("committed", "aborted", "open"):
        producer = Producer({**settings, "transactional.id": f"same-{name}"})
        producer.init_transactions(CALL_SECONDS)
        producer.begin_transaction()
        producer.produce(TOPIC, name, partition=1)
        assert producer.flush(CALL_SECONDS) == 0
        if name == "committed":
            producer.commit_transaction(CALL_SECONDS)
        elif name == "aborted":
            producer.abort_transaction(CALL_SECONDS)
    return producer


def conversation(bootstrap):
    """What each tool says, by what it was asked; everything is made here."""

    def groups(*arguments):
        return tool("consumer-groups", bootstrap, *arguments)

    said = {"create": tool("topics", bootstrap, "--create", "--topic", TOPIC, "--partitions", "2")}
    fill(bootstrap)
    commit(bootstrap, EMPTY)
    with member(bootstrap, ALIVE, "consumer"), member(bootstrap, CLASSIC, "classic"):
        for name in (EMPTY, ALIVE, CLASSIC):
            group = ("--group", name)
            said |= {
                f"offsets {name}": groups("--describe", *group),
                f"members {name}": groups("--describe", *group, "--members", "--verbose"),
                f"state {name}": groups("--describe", *group, "--state"),
            }
        said |= {
            "list": groups("--list"),
            "list states": groups("--list", "--state"),
            "groups": tool("groups", bootstrap, "--list"),
            "groups of consumers": tool("groups", bootstrap, "--list", "--consumer"),
            "delete alive": groups("--delete", "--group", ALIVE),
            "reset alive": groups(*resetting(ALIVE), "--execute"),
            "forget alive": groups("--delete-offsets", "--group", ALIVE, "--topic", TOPIC),
        }
    said |= {
        "reset dry": groups(*resetting(EMPTY), "--dry-run", "--export"),
        "reset": groups(*resetting(EMPTY), "--execute"),
        "forget": groups("--delete-offsets", "--group", EMPTY, "--topic", TOPIC),
        "delete": groups("--delete", "--group", EMPTY),
        "describe missing": groups("--describe", "--group", "nobody"),
        "delete missing": groups("--delete", "--group", "nobody"),
    }
    return said | said_of_transactions(bootstrap)


def resetting(group):
    return ("--reset-offsets", "--group", group, "--topic", TOPIC, "--to-offset", "3")


def said_of_transactions(bootstrap):
    producer = transactions(bootstrap)

    def ask(*arguments):
        return tool("transactions", bootstrap, *arguments)

    until(lambda: "PrepareCommit" not in str(ask("list")), "the commit is complete")
    said = {
        "tx list": ask("list", "--transactional-id-pattern", "same-.*"),
        "tx producers": ask("describe-producers", "--topic", TOPIC, "--partition", "1"),
        "tx missing": ask("describe", "--transactional-id", "nobody"),
        "tx hanging": ask("find-hanging", "--topic", TOPIC),
    }
    for name in ("committed", "aborted", "open"):
        said[f"tx {name}"] = ask("describe", "--transactional-id", f"same-{name}")
    producer.abort_transaction(CALL_SECONDS)
    return said


def fill(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"value {number}", f"key {number}", partition=number % 2)
    assert producer.flush(CALL_SECONDS) == 0


def commit(bootstrap, group):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})

    def is_committed():
        try:
            consumer.commit(offsets=[TopicPartition(TOPIC, 1, 5)], asynchronous=False)
        except KafkaError:
            return False
        return True

    until(is_committed, "a coordinator")
    consumer.close()


@pytest.fixture(scope="module")
def both(ours, kafka):
    return conversation(ours.bootstrap), conversation(kafka.bootstrap)


def test_groups_and_transactions(both):
    mine, theirs = both
    assert mine == theirs


def events(text):
    """Names and fields of the lines of a verifiable client, without what a clock or a cluster decides."""
    lines = [json.loads(line) for line in text.splitlines()]
    return sorted((one["name"], sorted(one.keys() - {"timestamp"})) for one in lines)


def test_verifiable_and_console_clients(ours, kafka):
    said = []
    for bootstrap in (ours.bootstrap, kafka.bootstrap):
        server = ("--bootstrap-server", bootstrap)
        topic = ("--topic", "same-clients")
        apache_kafka.tool("topics", *server, "--create", *topic, "--partitions", "1")
        produced = apache_kafka.tool(
            "verifiable-producer", *server, *topic, "--max-messages", "10", "--acks", "-1"
        )
        consumed = apache_kafka.tool(
            "verifiable-consumer", *server, *topic, "--group-id", "same-clients", "--max-messages", "10"
        )  # fmt: skip
        apache_kafka.tool("console-producer", *server, *topic, stdin="one\ntwo\n")
        printed = apache_kafka.tool(
            "console-consumer", *server, *topic, "--from-beginning", "--max-messages", "12",
            "--property", "print.partition=true", "--property", "print.offset=true", "--timeout-ms", "30000",
        )  # fmt: skip
        said.append(
            (events(produced.stdout), set(map(str, events(consumed.stdout))), printed.stdout)
        )
    assert said[0] == said[1]
