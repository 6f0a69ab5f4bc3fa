"""Starting and ending offsets and times: the rows equal those of a full read, cut at the bounds."""

import pytest

pytest.importorskip("pyspark")

from tests.spark.directories import metadata_batch
from tests.spark.kafka_metadata.test_reading import TOPIC_ID, partition, rows, standard, store
from tests.spark.kafka_metadata.test_stream import at as stream_at
from tests.spark.kafka_metadata.test_stream import reader_of
from trimaran.spark.kafka_metadata.options import BOUND_OPTIONS
from trimaran.spark.kafka_metadata.registry import TABLES
from trimaran.spark.kafka_metadata.source import parse_options
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.records.brokers import (
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord

NODES = (1, 2, 3)
BOUNDED = sorted(name for name, table in TABLES.items() if BOUND_OPTIONS[0] in table.options)
INTERVALS = ["broker_history", "partition_history", "quorum_epochs"]
EVENTS = [name for name in BOUNDED if name not in INTERVALS]


def at(offset):
    return f'{{"__cluster_metadata":{{"0":{offset}}}}}'


@pytest.fixture
def log(tmp_path):
    written = standard()
    for node_id in NODES:
        store(tmp_path, node_id, written.batches)
    return written


def test_tables_with_bounds_are_listed():
    assert EVENTS == [
        "acl_history",
        "config_history",
        "feature_history",
        "isr_changes",
        "leader_changes",
        "records",
        "topic_history",
        "voter_history",
    ]


def test_rows_are_those_of_requested_offsets(tmp_path, log):
    for table in EVENTS:
        for end in range(1, log.offset + 1, 2):
            if table == "records":
                told = [row for row in rows(tmp_path) if row["offset"] < end]
            else:
                told = rows(tmp_path, table, asOfOffset=str(end - 1))
            for start in range(0, end + 1, 2):
                bounds = {"startingOffsets": at(start), "endingOffsets": at(end)}
                found = rows(tmp_path, table, **bounds, splitBytes="1")
                assert found == [row for row in told if row["offset"] >= start], table


def ends_of(row):
    """Returns the first and last offset of an interval; an open interval has no last one."""
    if "last_offset" in row:
        return row["first_offset"], row["last_offset"]
    to = row["to_offset"]
    return row["from_offset"], None if to is None else max(row["from_offset"], to - 1)


def test_intervals_are_those_that_overlap_the_bounds(tmp_path):
    log = standard()
    registered = RegisterBrokerRecord(
        broker_id=11,
        incarnation_id=bytes(16),
        broker_epoch=5,
        end_points=[],
        features=[],
        rack=None,
        fenced=True,
    )
    log.write(11_000, registered)
    log.write(12_000, UnfenceBrokerRecord(id=11, epoch=5))
    log.write(13_000, UnregisterBrokerRecord(broker_id=11, broker_epoch=5))
    log.write(14_000, RemoveTopicRecord(topic_id=TOPIC_ID))
    for node_id in NODES:
        store(tmp_path, node_id, log.batches)
    for table in INTERVALS:
        assert len(rows(tmp_path, table)) > 1
        for end in (6, 9, log.offset):
            told = rows(tmp_path, table, asOfOffset=str(end - 1))
            for start in range(end + 1):
                found = rows(tmp_path, table, startingOffsets=at(start), endingOffsets=at(end))
                lasts = [(row, ends_of(row)[1]) for row in told]
                assert found == [row for row, last in lasts if last is None or last >= start]


def test_intervals_are_selected_by_time(tmp_path, log):
    found = rows(tmp_path, "partition_history", startingTimestamp="5000", endingTimestamp="9000")
    assert [(row["from_offset"], row["to_offset"], row["state"]) for row in found] == [
        (5, 7, "under_min_isr"),
        (7, 8, "offline"),
        (8, None, "under_min_isr"),
    ]


def test_topics_keep_names_from_before_the_start(tmp_path, log):
    found = rows(tmp_path, "records", startingOffsets=at(5), endingOffsets=at(6))
    assert [(row["offset"], row["topic"]) for row in found] == [(5, "orders")]


def test_times_resolve_to_first_record_from_then(tmp_path, log):
    def offsets(**options):
        return [row["offset"] for row in rows(tmp_path, "records", **options)]

    assert offsets(startingTimestamp="2001", endingTimestamp="8500") == [5, 7]
    by_partition = '{"__cluster_metadata":{"0":9000}}'
    assert offsets(startingOffsetsByTimestamp=by_partition) == [9, 10]
    assert offsets(endingTimestamp="99999")[-1] == 10
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    assert offsets(startingTimestamp="99999", **latest) == []
    with pytest.raises(OptionError, match="no record of 99999 ms or later"):
        offsets(startingTimestamp="99999")


def test_start_leaves_out_initial_snapshot(tmp_path):
    directory = store(tmp_path, 1, standard().batches)
    for file in directory.glob(f"{0:020d}.*"):
        file.unlink()
    (directory / f"{6:020d}.log").write_bytes(b"".join(standard().batches[4:]))
    state = [TopicRecord(name="orders", topic_id=TOPIC_ID), partition(isr=[12], leader=12)]
    (directory / f"{6:020d}-{1:010d}.checkpoint").write_bytes(metadata_batch(0, 1, state, 3000))
    assert {row["source"] for row in rows(tmp_path)} == {"snapshot", "log"}
    found = rows(tmp_path, startingOffsets=at(7))
    assert [(row["source"], row["offset"], row["topic"]) for row in found] == [
        *(("log", offset, "orders") for offset in (7, 8, 9)),
        ("log", 10, None),
    ]
    changes = rows(tmp_path, "isr_changes", startingOffsets=at(6))
    assert [row["offset"] for row in changes] == [9]


def test_missing_offsets_are_reported(tmp_path, log):
    for table in ("records", "isr_changes"):
        with pytest.raises(OptionError, match="begins at offset 12, behind offset 11"):
            rows(tmp_path, table, startingOffsets=at(12))
        with pytest.raises(DataUnreadable, match="has the offsets 0 to 11, 12 is outside"):
            rows(tmp_path, table, endingOffsets=at(12))
    with pytest.raises(OptionError, match="__cluster_metadata-0 is missing"):
        rows(tmp_path, "records", startingOffsets='{"orders":{"0":1}}')


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"table": "image", "startingOffsets": at(1)}, "no effect on the table image"),
        ({"table": "snapshots", "endingTimestamp": "5"}, "no effect on the table"),
        ({"table": "isr_changes", "asOfOffset": "5", "endingOffsets": at(5)}, "not both"),
        ({"table": "records", "startingOffsets": "latest"}, "earliest or JSON"),
    ],
)
def test_bounds_without_effect_are_refused(options, why):
    with pytest.raises(OptionError, match=why):
        parse_options({"path": "/x", **options})


def test_stream_may_begin_at_a_time(tmp_path, log):
    assert reader_of(tmp_path, startingTimestamp="6000").initialOffset() == stream_at(7)
    assert reader_of(tmp_path, startingOffsets=at(4)).initialOffset() == stream_at(4)
    with pytest.raises(OptionError, match="has no end"):
        reader_of(tmp_path, endingTimestamp="6000")
