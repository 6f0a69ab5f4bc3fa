"""`consume --share-group` against a broker: an acknowledged record is printed once, any other is given back."""

import json

import pytest

from trimaran.cli import share_records
from trimaran.cli.app import run
from trimaran.client import changes
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.client.share_consumer import ShareConsumer
from trimaran.client.share_session import ACCEPT
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient

GROUP_RESOURCE = 32
SETTINGS = {"group.share.assignment.interval.ms": "0", "group.coordinator.append.linger.ms": "0"}


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka(SETTINGS) as kafka, BlockingClient(kafka.bootstrap) as client:
        for group in ("halves", "rejecting", "releasing", "looking", "leaving"):
            setting = ("share.auto.offset.reset", changes.SET, "earliest")
            changes.alter_configs(client, GROUP_RESOURCE, group, [setting])
            kafka.create_topic(f"of-{group}", partitions=2)
            producer = IdempotentProducer(client, f"of-{group}")
            for number in range(6):
                producer.send(number % 2, [(None, str(number).encode())])
        yield kafka


@pytest.fixture
def consumed(kafka, capsys, monkeypatch):
    """Returns a function that runs `consume` and returns what it printed, and its exit code."""
    monkeypatch.setattr("trimaran.cli.app._end_like_ctrl_c", lambda: None)  # this process continues
    monkeypatch.setattr(share_records, "QUIET_SECONDS", 1.0)

    def consume(*words):
        with pytest.raises(SystemExit) as ended:
            run(["consume", *words, "-b", kafka.bootstrap])
        said = capsys.readouterr()
        return said.out.splitlines(), said.err, int(ended.value.code)

    return consume


def test_accepted_records_are_printed_once(consumed):
    first = consumed("of-halves", "-g", "halves", "-n", "2")
    second = consumed("of-halves", "--share-group", "halves", "-n", "4", "-f", "%s\\n")
    assert sorted(first[0] + second[0]) == list("012345")
    assert (first[1:], second[1:]) == (("", 0), ("", 0))
    assert consumed("of-halves", "-g", "halves", "-e") == ([], "", 0)


def test_rejected_records_are_not_delivered_again(consumed):
    out, _, code = consumed("of-rejecting", "-g", "rejecting", "--reject", "-n", "6")
    assert (sorted(out), code) == (list("012345"), 0)
    assert consumed("of-rejecting", "-g", "rejecting", "-e") == ([], "", 0)


def test_released_records_are_delivered_again(consumed):
    consumed("of-releasing", "-g", "releasing", "--release", "-n", "6")
    out, _, _ = consumed("of-releasing", "-g", "releasing", "-n", "6", "-o", "jsonl")
    rows = [json.loads(line) for line in out]
    assert sorted(row["value"] for row in rows) == list("012345")
    assert {(row["deliveries"], row["topic"]) for row in rows} == {(2, "of-releasing")}


def test_looking_at_records_shows_each_once(consumed):
    for deliveries in (1, 2):
        out, said, code = consumed("of-looking", "-g", "looking", "--release", "-e", "-o", "jsonl")
        rows = [json.loads(line) for line in out]
        assert sorted(row["value"] for row in rows) == list("012345")
        assert ({row["deliveries"] for row in rows}, said, code) == ({deliveries}, "", 0)


def test_records_without_acknowledgement_are_given_back(kafka, consumed):
    """Only the first of the records that were fetched is acknowledged; a record that was given back was delivered."""
    with BlockingClient(kafka.bootstrap) as client:
        with ShareConsumer(client, "leaving", "of-leaving") as consumer:
            found = consumer.records()
            shared = next(found)
            consumer.acknowledge(shared, ACCEPT)
            next(found)
            found.close()
        assert consumer.lost == 0
    out, _, _ = consumed("of-leaving", "-g", "leaving", "-n", "5", "-o", "jsonl")
    rows = [json.loads(line) for line in out]
    assert sorted([shared.record.value.decode(), *(row["value"] for row in rows)]) == list("012345")
    assert {row["deliveries"] for row in rows} <= {1, 2}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("of-halves --reject", "--reject needs --share-group"),
        ("of-halves --release", "--release needs --share-group"),
        ("of-halves -g halves --reject --release", "cannot be combined"),
        ("of-halves -g halves --offset end", "--offset cannot be combined with --share-group"),
        ("of-halves -g halves -p 1", "--partition cannot be combined with --share-group"),
        ("of-halves -g halves --until end", "--until cannot be combined with --share-group"),
        ("of-halves -g halves --isolation read_committed", "--isolation cannot be combined"),
    ],
)
def test_option_without_a_meaning_is_refused(consumed, words, told):
    out, err, code = consumed(*words.split())
    assert (out, code) == ([], 2)
    assert told in err


def test_group_of_another_kind_is_named(kafka, consumed):
    with BlockingClient(kafka.bootstrap) as client:
        changes.commit_offsets(client, "readers", {("of-halves", 0): 1})
    out, err, code = consumed("of-halves", "-g", "readers", "-n", "1")
    assert (out, code) == ([], 5)
    assert "readers is no share group\n  why: it is a classic group" in err
