"""The metadata log as a stream: each committed record once, with topic names, and reported losses."""

from dataclasses import replace

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.directories import metadata_batch
from tests.spark.kafka_metadata.test_reading import TOPIC_ID, change, standard, store
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.spark.kafka_metadata.source import MetadataStreamReader, parse_options
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.records.topics import TopicRecord

COLUMNS = ("offset", "type", "topic", "partition", "committed")
KEY = "__cluster_metadata"


def reader_of(root, **options):
    parsed = parse_options({"path": str(root), **options}, streaming=True)
    return MetadataStreamReader(parsed, COLUMNS)


def rows(reader, start, end):
    return [
        tuple(row.values())
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    ]


def at(offset):
    return {KEY: {"0": offset}, f"{KEY}@cluster": {}}


def stored(root, log, nodes=(1, 2, 3)):
    """Rewrites the voters' directories as the log grows."""
    import shutil

    for node_id in nodes:
        shutil.rmtree(root / f"node-{node_id}", ignore_errors=True)
        store(root, node_id, log.batches)


def test_records_come_once_with_earlier_topic_names(tmp_path):
    log = standard()
    stored(tmp_path, log)
    reader = reader_of(tmp_path, startingOffsets="earliest", maxOffsetsPerTrigger="4")
    offset, seen = reader.initialOffset(), []
    assert offset == at(0)
    while (following := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        seen += rows(reader, offset, following)
        offset = following
    assert offset == at(log.offset)
    assert [row[0] for row in seen] == [
        o for o in range(log.offset) if o not in (0, 6)
    ]  # offsets 0 and 6 are LeaderChange records
    log.write(11_000, change(isr=[11, 12]))
    stored(tmp_path, log)
    again = reader_of(tmp_path)
    assert again.initialOffset() == at(log.offset)
    following = again.latestOffset(offset, ReadAllAvailable())
    assert rows(again, offset, following) == [
        (log.offset - 1, "PartitionChangeRecord", "orders", 0, True)
    ]


def test_stream_ends_at_offset_of_majority(tmp_path):
    log = standard()
    stored(tmp_path, log, (1,))
    with pytest.raises(DataUnreadable, match="it is not known what is committed"):
        reader_of(tmp_path).initialOffset()
    uncommitted = reader_of(tmp_path, includeUncommitted="true")
    assert uncommitted.initialOffset() == at(log.offset)
    store(tmp_path, 2, log.batches[:-1])
    assert reader_of(tmp_path).initialOffset() == at(log.offset - 1)


def test_stream_reports_options_without_effect_once(tmp_path, caplog):
    log = standard()
    stored(tmp_path, log)
    reader = reader_of(tmp_path, **{"kafka.max.poll.records": "5"})
    for _ in range(2):
        assert reader.latestOffset(at(0), ReadAllAvailable()) == at(log.offset)
    assert rows(reader, at(0), at(log.offset))
    (told,) = caplog.messages
    assert "no effect of kafka.max.poll.records" in told


def test_truncated_records_are_reported(tmp_path):
    log = standard()
    stored(tmp_path, log)
    with pytest.raises(DataUnreadable, match="was cut, or deleted and created again"):
        reader_of(tmp_path).latestOffset(at(log.offset + 5), ReadAllAvailable())


def test_earlier_runs_truncated_batch_is_reported(tmp_path):
    log = standard()
    stored(tmp_path, log)
    end = at(log.offset + 5)
    with pytest.raises(DataUnreadable, match=f"offsets up to {log.offset + 4} were to be read"):
        reader_of(tmp_path).partitions(at(0), end)
    lenient = reader_of(tmp_path, failOnDataLoss="false")
    assert rows(lenient, at(0), end) == rows(lenient, at(0), at(log.offset))
    assert rows(lenient, at(log.offset), end) == []


def test_log_of_another_cluster_is_not_continued(tmp_path, caplog):
    """The controllers were formatted again: the log has another length but the same topic id."""
    log = standard()
    stored(tmp_path, log)
    for properties in tmp_path.glob("node-*/meta.properties"):
        node = properties.parent
        replace(MetaProperties.load(node), cluster_id="another").save(node)
    start = at(3)
    with pytest.raises(
        DataUnreadable, match=f"{KEY} was deleted and created again .*cluster.*anot"
    ):
        reader_of(tmp_path).latestOffset(start, ReadAllAvailable())
    lenient = reader_of(tmp_path, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert end == {KEY: {"0": log.offset}, f"{KEY}@another": {}}
    assert rows(lenient, start, end)[0][0] == 1
    assert "is read from its beginning" in caplog.text


def test_topics_are_named_by_initial_snapshot(tmp_path):
    log = standard()
    begins_at, state = 6, [TopicRecord(name="orders", topic_id=TOPIC_ID)]
    for node_id in (1, 2):
        directory = store(tmp_path, node_id, log.batches)
        for file in directory.glob(f"{0:020d}.*"):
            file.unlink()
        (directory / f"{begins_at:020d}.log").write_bytes(b"".join(log.batches[4:]))
        snapshot = directory / f"{begins_at:020d}-{1:010d}.checkpoint"
        snapshot.write_bytes(metadata_batch(0, 1, state, 3000))
    for options in ({}, {"topics": "orders"}):
        reader = reader_of(tmp_path, **options)
        found = rows(reader, at(begins_at), at(log.offset))
        assert [row[2] for row in found if row[1] == "PartitionChangeRecord"] == ["orders"] * 3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"table": "image"}, "a stream is of the table records"),
        ({"nodes": "all"}, "of one copy"),
        ({"startingOffsets": "sometime"}, "startingOffsets"),
    ],
)
def test_options_meaningless_for_streams_are_refused(tmp_path, options, told):
    with pytest.raises(OptionError, match=told):
        reader_of(tmp_path, **options)


def test_options_of_streams_are_refused_elsewhere():
    with pytest.raises(OptionError, match="it is of streams"):
        parse_options({"path": "/x", "maxOffsetsPerTrigger": "5"})
