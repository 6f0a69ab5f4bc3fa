"""A later Kafka's metadata log on disk: unknown records are named, counted and reported."""

import json

import pytest

from tests.spark.directories import (
    created_topic,
    encode_newest,
    leader_change,
    make_node,
    metadata_batch,
    write_partition,
)
from trimaran.cli import history, metadata, metadata_state
from trimaran.inspect.log_rows import decode_record
from trimaran.inspect.metadata.events import events_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.quorum.metadata.image import UnknownRecords
from trimaran.quorum.metadata.replay import Replay
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.misc import NoOpRecord

TOPIC = bytes(15) + b"\x08"
OF_LATER_TYPE = b"\x01\x1e\x00\x00\x00\x00\x67\x00"  # type 30, which no Kafka has
RETENTION = ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="1")
SAID = (
    "this may be stale: left out 2 records of a later Kafka"
    " (type 30 version 0 at offset 4, type 2 version 9 at offset 5)"
)


def later(offset):
    """Returns a record of an unknown type, and one of a known type in an unknown version."""
    values = [NewRecord(None, value, 3000) for value in (OF_LATER_TYPE, b"\x01\x02\x09later")]
    return build_batch(values, base_offset=offset, leader_epoch=1)


@pytest.fixture
def node(tmp_path):
    made = make_node(tmp_path, 1)
    batches = [
        leader_change(0, 1, 1, (1,), 1000),
        metadata_batch(1, 1, [*created_topic(TOPIC), NoOpRecord()], 2000),
        later(4),
        metadata_batch(
            6,
            1,
            [RETENTION],
            4000,
        ),
    ]
    write_partition(made, "__cluster_metadata", 0, batches)
    return made


def test_dump_names_unknown_records_by_number(node, capsys):
    metadata.dump(node, output="jsonl")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [
        (row["offset"], row["type"], row["payload"]) for row in rows if row["offset"] in (4, 5)
    ] == [
        (4, "UNKNOWN_30", {"type": 30, "version": 0}),
        (5, "UNKNOWN_2", {"type": 2, "version": 9}),
    ]
    assert rows[-1]["offset"] == 6, "it goes on"


def test_image_reports_unknown_records(node, capsys):
    metadata_state.image(node)
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["configs"][0]["config"] == {"retention.ms": "1"}, "what follows is there"
    assert found["unknown_records"]["count"] == 2
    assert found["unknown_records"]["first_of_each_type"][0] == {
        "type": 30,
        "version": 0,
        "offset": 4,
    }
    assert told.err.strip() == SAID


def test_difference_names_the_possibly_stale_state(node, capsys):
    metadata_state.diff("3", "6", path=node)
    told = capsys.readouterr()
    assert "/configs/TOPIC:orders" in told.out
    assert told.err.strip() == SAID.replace("this", "the state 6")


def test_history_reports_unknown_records(node, capsys):
    history.partitions("orders/0", node)
    assert SAID in capsys.readouterr().err


def test_verify_reports_unknown_records_and_continues(node, capsys):
    assert metadata_state.verify(node) == 0
    assert SAID in capsys.readouterr().err


def test_dump_names_unknown_record_by_number():
    (batch,) = iter_batches(memoryview(later(4)))
    rows = [decode_record("__cluster_metadata", record) for record in decode_records(batch)]
    assert [row["type"] for row in rows] == ["UNKNOWN_30", "UNKNOWN_2"]
    assert all("error" not in row for row in rows)


def test_unknown_record_is_an_event():
    (batch,) = iter_batches(memoryview(later(4)))
    image = Replay().state.image
    first, _ = events_of(batch, image, image).events
    assert (first.offset, first.level, first.subject) == (4, "warn", "record type 30")


def test_snapshot_with_unknown_records_restarts_the_count(node):
    replay = Replay()
    values = [OF_LATER_TYPE, *map(encode_newest, created_topic(TOPIC))]
    data = b"".join(encode_snapshot(OffsetAndEpoch(9, 1), values, appended_at_ms=1, now_ms=1))
    for batch in iter_batches(memoryview(later(0))):
        replay.apply(batch)
    assert replay.state.image.unknown.count == 2
    replay.load_snapshot(9, 1, data)
    state = replay.state
    assert state.image.unknown == UnknownRecords(1, (UnknownRecord(30, 0, 1),))
    assert len(state.image.topics.by_name) == 1


def test_malformed_known_record_is_damage():
    broken = build_batch([NewRecord(None, b"\x01\x02\x00\x02t", 1)], base_offset=0, leader_epoch=1)
    (batch,) = iter_batches(memoryview(broken))
    with pytest.raises(RemoteProtocolError):
        Replay().apply(batch)


def test_named_kinds_are_bounded_all_are_counted():
    found = UnknownRecords()
    for number in range(100, 200):
        found = found.plus(1, [UnknownRecord(number, 0, number)])
    assert (found.count, len(found.kinds)) == (100, 20)
