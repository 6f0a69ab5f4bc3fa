"""`consume --group`, several topics and patterns, against a broker: what was printed is committed."""

import json

import pytest

from tests.cluster.processes import until
from trimaran.cli import group_records, share_records
from trimaran.cli.app import run
from trimaran.client import changes
from trimaran.client.consumer_member import MemberSubscription
from trimaran.client.group_consumer import GroupConsumer
from trimaran.client.group_members import described_or_none
from trimaran.client.group_offsets import committed_offsets
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.client.positions import parse_position
from trimaran.errors.user_error import Exit
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient

SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.coordinator.append.linger.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
}
TOPICS = ("orders", "orders-eu", "payments")


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka(SETTINGS) as kafka, BlockingClient(kafka.bootstrap) as client:
        for topic in TOPICS:
            kafka.create_topic(topic, partitions=2)
            producer = IdempotentProducer(client, topic)
            for number in range(6):
                producer.send(number % 2, [(None, f"{topic} {number}".encode())])
        yield kafka


@pytest.fixture
def consumed(kafka, capsysbinary, monkeypatch):
    """Returns a function that runs `consume` and returns what it printed, its messages and its exit code."""
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues
    monkeypatch.setattr(share_records, "QUIET_SECONDS", 1.0)
    monkeypatch.setattr(group_records, "QUIET_SECONDS", 1.0)

    def consume(*words):
        with pytest.raises(SystemExit) as ended:
            run(["consume", *words, "-b", kafka.bootstrap])
        said = capsysbinary.readouterr()
        return sorted(said.out.decode().splitlines()), said.err.decode(), int(ended.value.code)

    return consume


def values(topic, *numbers):
    return [f"{topic} {number}" for number in numbers]


def committed(kafka, group):
    with BlockingClient(kafka.bootstrap) as client:
        return {
            (where.topic, where.partition): offset
            for where, offset in committed_offsets(client, group).items()
        }


def test_topics_are_read_together(consumed):
    out, said, code = consumed("orders", "payments", "orders", "-e")
    assert (out, said, code) == (values("orders", *range(6)) + values("payments", *range(6)), "", 0)


def test_pattern_matches_whole_names(consumed):
    assert consumed("--include", "orders", "-e")[0] == values("orders", *range(6))
    assert len(consumed("--include", "orders.*", "-e", "-p", "0")[0]) == 6


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "neither is given"),
        (("orders", "--include", "x"), "both are given"),
        (("--include", "nothing.*"), "no topic matches"),
        (("--include", "("), "no regular expression"),
        (("orders", "-G", "g", "-p", "0"), "--partition cannot be combined"),
        (("orders", "-G", "g", "--until", "end"), "--until cannot be combined"),
        (("orders", "-G", ""), "--group is empty"),
        (("typo", "-G", "g"), "there is no topic typo"),
        (("orders", "payments", "-g", "s"), "reads one topic"),
        (("orders", "-g", "s", "-G", "g"), "--group cannot be combined"),
    ],
)
def test_contradicting_words_are_refused(consumed, words, told):
    out, said, code = consumed(*words)
    assert (out, told in said, code in (Exit.USAGE, Exit.REFUSED)) == ([], True, True)


def test_printed_records_are_committed(kafka, consumed):
    first = consumed("orders", "payments", "-G", "counted", "-n", "5")
    assert sum(committed(kafka, "counted").values()) == 5
    second = consumed("orders", "payments", "--group", "counted", "-e")
    assert (first[1:], second[1:]) == (("", 0), ("", 0))
    everything = values("orders", *range(6)) + values("payments", *range(6))
    assert sorted(first[0] + second[0]) == everything
    assert committed(kafka, "counted") == {
        (t, p): 3 for t in ("orders", "payments") for p in (0, 1)
    }
    assert consumed("orders", "payments", "-G", "counted", "-e") == ([], "", 0)


def test_coordinator_matches_pattern(kafka, consumed):
    out, _, code = consumed("--include", "orders.*", "-G", "matching", "-e", "-o", "json")
    assert {json.loads(line)["topic"] for line in out} == {"orders", "orders-eu"}
    assert (len(out), code) == (12, 0)


def test_new_group_begins_at_given_position(kafka, consumed):
    assert consumed("orders", "-G", "late", "--offset", "-1", "-e")[0] == values("orders", 4, 5)
    assert committed(kafka, "late") == {("orders", 0): 3, ("orders", 1): 3}


def test_group_of_another_kind_is_refused(kafka, consumed):
    with BlockingClient(kafka.bootstrap) as client:
        setting = ("share.auto.offset.reset", changes.SET, "earliest")
        changes.alter_configs(client, 32, "shared", [setting])
    assert len(consumed("orders", "-g", "shared", "-n", "6")[0]) == 6
    _, said, code = consumed("orders", "-G", "shared", "-e")
    assert ("shared is no consumer group" in said, code) == (True, Exit.REFUSED)


def member_of(client, group, topic="payments"):
    begin = parse_position("start")
    return GroupConsumer(client, group, MemberSubscription([topic]), begin, is_committed=True)


def read_all(member):
    found = []
    for where, record in member.records(exit_at_end=True, quiet_seconds=0.0):
        found.append(record.value.decode())
        member.finished(where, record)
    return sorted(found)


def test_member_commits_before_it_gives_back(kafka):
    with BlockingClient(kafka.bootstrap) as client, BlockingClient(kafka.bootstrap) as other:
        with member_of(client, "both") as first:
            until(lambda: first.keep_up() or len(first.partitions) == 2, "it has both")
            assert read_all(first) == values("payments", *range(6))
            with member_of(other, "both") as second:

                def is_balanced():
                    first.keep_up()
                    second.keep_up()
                    return len(first.partitions) == len(second.partitions) == 1

                until(is_balanced, "each has one")
                assert first.partitions.isdisjoint(second.partitions)
                assert (read_all(first), read_all(second)) == ([], [])
        assert (first.lost, second.lost) == (0, 0)
    assert committed(kafka, "both") == {("payments", 0): 3, ("payments", 1): 3}


def test_removed_member_joins_again_and_counts(kafka):
    """Records that it had finished and not committed are read again."""
    with BlockingClient(kafka.bootstrap) as client, BlockingClient(kafka.bootstrap) as other:
        with member_of(client, "removed") as member:
            until(lambda: member.keep_up() or len(member.partitions) == 2, "it has both")
            found = member.records(exit_at_end=True, quiet_seconds=0.0)
            member.finished(*next(found))
            until(lambda: not described_or_none(other, "removed")["members"], "it is removed")
            member.keep_up()
            assert (member.lost, member.partitions) == (1, frozenset())
            until(lambda: member.keep_up() or len(member.partitions) == 2, "it is back")
            assert read_all(member) == values("payments", *range(6))
