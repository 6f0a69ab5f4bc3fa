"""Records of a later Kafka: each table with rows that they could have changed reports how many it skipped."""

import struct

import pytest

from tests.spark.directories import encode_newest, leader_change
from tests.spark.kafka_metadata.test_reading import TOPIC_ID, Log, change, partition, rows, store
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import parse_options, plan_table
from trimaran.wire.records.brokers import RegisterBrokerRecord, UnregisterBrokerRecord
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.records.transactions import AbortTransactionRecord, BeginTransactionRecord

OF_LATER_TYPE = b"\x01\x1e\x00\x00\x00\x00\x67\x00"  # type 30, which no Kafka has
OF_A_LONG_FRAME = b"\x01\xad\x02\x00\x00"  # type 301
OF_A_LATER_VERSION = b"\x01\x02\x09later"
LATER = (OF_LATER_TYPE, OF_A_LONG_FRAME, OF_A_LATER_VERSION)
# Rows of these do not depend on other records: each comes from one record, one batch, one file or one leader.
NOT_STALE = {"records", "batches", "control", "snapshots", "quorum_epochs"}
FIRST = 8  # offset of the first unknown record
HISTORIES = sorted(TABLES.keys() - NOT_STALE - {"image"})


def add(log, *values, timestamp_ms=2000):
    """Appends a batch of encoded records."""
    records = [NewRecord(None, value, timestamp_ms) for value in values]
    log.batches.append(build_batch(records, base_offset=log.offset, leader_epoch=log.epoch))
    log.offset += len(values)
    return log


def registered(rack):
    return RegisterBrokerRecord(
        broker_id=11, incarnation_id=bytes(16), broker_epoch=1, end_points=[], features=[], rack=rack
    )  # fmt: skip


def retention(value):
    return ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=value)


def stored(root, *between):
    """Writes a log with rows of each history before and after some records."""
    log = Log().lead(1, 1000)
    acl = AccessControlEntryRecord(
        id=bytes(16), resource_type=2, resource_name="orders", pattern_type=3, principal="User:a",
        host="*", operation=3, permission_type=3,
    )  # fmt: skip
    log.write(1000, FeatureLevelRecord(name="metadata.version", feature_level=30), registered("a"))
    log.write(1000, TopicRecord(name="orders", topic_id=TOPIC_ID), partition(), retention("1"), acl)
    log.write(1500, change(isr=[11, 12], leader=12))
    assert log.offset == FIRST
    add(log, *between)
    log.write(3000, FeatureLevelRecord(name="metadata.version", feature_level=29))
    log.write(3000, change(isr=[12], leader=11), retention("2"))
    log.write(3000, RemoveAccessControlEntryRecord(id=bytes(16)))
    log.write(3000, RemoveTopicRecord(topic_id=TOPIC_ID))
    log.write(3000, UnregisterBrokerRecord(broker_id=11, broker_epoch=1))
    log.batches.append(leader_change(log.offset, log.epoch + 1, 1, (1, 2), 4000))
    return store(root, 1, log.batches)


@pytest.mark.parametrize("table", HISTORIES)
def test_rows_count_unknown_records_up_to_them(tmp_path, table):
    stored(tmp_path, *LATER)
    found = rows(tmp_path, table)
    ends = [row["to_offset"] if "to_offset" in row else row["offset"] for row in found]
    counts = [row["unknown_records"] for row in found]
    assert counts == [0 if end is not None and end < FIRST else len(LATER) for end in ends]
    assert len(LATER) in counts


@pytest.mark.parametrize("table", HISTORIES)
def test_fully_known_log_counts_no_unknown_records(tmp_path, table):
    stored(tmp_path, OF_LATER_TYPE)
    whole = rows(tmp_path, table, asOfOffset=str(FIRST - 1))
    assert {row["unknown_records"] for row in whole} == {0}


def test_unknown_record_of_aborted_transaction_is_not_counted(tmp_path):
    begin, end = map(encode_newest, (BeginTransactionRecord(), AbortTransactionRecord()))
    stored(tmp_path, begin, OF_LATER_TYPE, end)
    assert {row["unknown_records"] for row in rows(tmp_path, "topic_history")} == {0}


def test_history_from_snapshot_counts_its_unknown_records(tmp_path):
    directory = stored(tmp_path, *LATER)
    begin = f"{FIRST + len(LATER):020d}"
    whole = directory / f"{0:020d}.log"
    batches = list(iter_batches(memoryview(whole.read_bytes())))
    kept = [bytes(b.buffer) for b in batches if b.base_offset >= int(begin)]
    for file in directory.glob(f"{0:020d}.*"):
        file.unlink()
    (directory / f"{begin}.log").write_bytes(b"".join(kept))
    state = map(encode_newest, (TopicRecord(name="orders", topic_id=TOPIC_ID), partition()))
    snapshot = [NewRecord(None, value, 2000) for value in (OF_LATER_TYPE, *state)]
    name = f"{begin}-{1:010d}.checkpoint"
    (directory / name).write_bytes(build_batch(snapshot, base_offset=0, leader_epoch=1))
    found = rows(tmp_path, "topic_history")
    assert [(row["event"], row["unknown_records"]) for row in found] == [
        ("snapshot", 1),
        ("deleted", 1),
    ]


def test_column_is_read_alone_or_in_any_order(tmp_path):
    stored(tmp_path, *LATER)
    options = parse_options({"path": str(tmp_path), "table": "topic_history"})
    table = TABLES["topic_history"]
    for wanted in (("unknown_records",), ("unknown_records", "event"), ("event",)):
        (task,) = plan_table(table, options, wanted)
        (batch,) = table.read(task, wanted, options)
        assert batch.schema.names == list(wanted)
        assert batch.num_rows == 2


MALFORMED = (
    b"\x01\x02",
    b"\x02\x02\x00later",
    b"\x01\x02\x00",
)  # short, of a later frame version, without a body


@pytest.mark.parametrize("table", sorted({"config_history", "topic_history", "broker_history"}))
def test_malformed_records_count_as_unknown(tmp_path, caplog, table):
    values = {"broker_history": b"\x01\x00\x00", "config_history": b"\x01\x04\x00"}
    values = (*MALFORMED[:2], values.get(table, MALFORMED[2]))
    stored(tmp_path, *values)
    last = rows(tmp_path, table)[-1]
    assert last["unknown_records"] == 3
    assert f"{table} may be stale: left out 3 records of a later Kafka (type -1" in caplog.text


@pytest.mark.parametrize("table", ["voter_history", "feature_history"])
def test_control_record_of_later_kafka_is_counted(tmp_path, caplog, table):
    key = struct.pack(">hh", 0, 9)  # a type that no Kafka has
    record = NewRecord(key, b"\0\0", 2000)
    log = Log().lead(1, 1000).write(1000, FeatureLevelRecord(name="f", feature_level=1))
    log.batches.append(
        build_batch([record], base_offset=log.offset, leader_epoch=log.epoch, is_control=True)
    )
    log.offset += 1
    log.write(3000, FeatureLevelRecord(name="f", feature_level=2))
    log.batches.append(leader_change(log.offset, log.epoch + 1, 1, (1, 2), 4000))
    store(tmp_path, 1, log.batches)
    assert rows(tmp_path, table)[-1]["unknown_records"] == 1
    assert "1 record of a later Kafka (type 9 version 0 at offset 2)" in caplog.text
    image = rows(tmp_path, "image")
    assert {row["unknown_records"] for row in image} == {1}
    assert "image may be stale: left out 1 control record" in caplog.text


def test_each_row_of_image_counts_unknown_records(tmp_path, caplog):
    stored(tmp_path, *LATER)
    found = rows(tmp_path, "image", asOfOffset=str(FIRST + len(LATER) - 1))
    assert {row["unknown_records"] for row in found} == {len(LATER)}
    assert {"topic", "broker"} < {row["kind"] for row in found}
    assert "image may be stale: left out 3 records of a later Kafka" in caplog.text
    caplog.clear()
    before = rows(tmp_path, "image", asOfOffset=str(FIRST - 1))
    assert {row["unknown_records"] for row in before} == {0}
    assert not caplog.messages


def test_names_of_topics_may_be_missing(tmp_path, caplog):
    stored(tmp_path, OF_A_LATER_VERSION)
    assert rows(tmp_path, "records", topics="orders")
    assert "the column topic may be stale: left out 1 record of a later Kafka" in caplog.text


def test_history_without_rows_gives_a_warning(tmp_path, caplog):
    store(tmp_path, 1, add(Log().lead(1, 1000), *LATER).batches)
    assert rows(tmp_path, "isr_changes") == []
    assert caplog.messages == [
        "isr_changes may be stale: left out 3 records of a later Kafka (type 30 version 0 at offset 1, "
        "type 301 version 0 at offset 2, type 2 version 9 at offset 3)"
    ]


def test_image_of_some_topics_reports_unknown_records(tmp_path):
    stored(tmp_path, *LATER)
    found = rows(tmp_path, "image", topics="orders")
    assert [row["value"] for row in found if row["kind"] == "unknown_records"] == [
        "3 records of a later Kafka (type 30 version 0 at offset 8, type 301 version 0 at offset 9, "
        "type 2 version 9 at offset 10)"
    ]
