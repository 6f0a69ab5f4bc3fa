"""The rows of the levels `segments` and `batches`, and chunks of records, compared with the files' content."""

import pickle

import crc32c
import pytest

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from trimaran.log.batches.batch import CRC, CRC_POSITION, CRC_START, HEADER_BYTES, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.inspection.reader import list_segments
from trimaran.spark.data_source.columns import microseconds
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.data_source.streams import FailedStreamReader
from trimaran.spark.kafka_log import batches as batches_level
from trimaran.spark.kafka_log import records as records_level
from trimaran.spark.kafka_log.batches import read_batches
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import open_origin, plan_log, plan_segments
from trimaran.spark.kafka_log.records import RECORD_SCHEMA, read_records
from trimaran.spark.kafka_log.segments import SEGMENT_SCHEMA, read_segments, segment_tasks
from trimaran.spark.kafka_log.source import KafkaLogSource, LogReader, read_request_of
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable

COLUMNS = tuple(SEGMENT_SCHEMA.names)


def negative_times(offset):
    records = [NewRecord(b"k", b"v", time) for time in (-1, -1)]
    return build_batch(records, base_offset=offset)


@pytest.fixture
def node(tmp_path):
    """Returns a node with two partitions; in one, offsets are missing, and its cleaner has reached the third
    segment.
    """
    made = make_node(tmp_path, 7)
    gapped, whole = data_batches(24, gaps=True), [*data_batches(24), negative_times(240)]
    write_partition(made, "gapped", 1, gapped)
    write_partition(made, "whole", 0, whole)
    third = list_segments(made / "gapped-1")[2]
    ends = {("gapped", 1): next_offset(gapped), ("whole", 0): 242}
    checkpoint(made, ends, cleaned={("gapped", 1): third.base_offset})
    return made


def segment_rows(root, **options):
    parsed = LogOptions.parse({"path": str(root), "level": "segments", **options})
    tasks = pickle.loads(pickle.dumps(plan_segments(parsed).tasks))
    return [
        row
        for task in tasks
        for batch in read_segments(task, ReadRequest(COLUMNS))
        for row in batch.to_pylist()
    ]


def expected_rows(directory, topic, partition, cleaned_to):
    """Returns rows made by iterating over the batches of each file."""
    paths = sorted(directory.glob("*.log"))
    for path in paths:
        views = list(iter_batches(memoryview(path.read_bytes())))
        base, end = int(path.stem), views[-1].next_offset
        count = sum(view.count for view in views)
        yield {
            "topic": topic,
            "partition": partition,
            "broker_id": 7,
            "file": path.as_uri(),
            "base_offset": base,
            "next_offset": end,
            "size_bytes": path.stat().st_size,
            "batches": len(views),
            "records": count,
            "missing_offsets": end - base - count,
            "times": (
                min(view.base_timestamp for view in views),
                max(view.max_timestamp for view in views),
            ),
            "is_active": path == paths[-1],
            "is_cleaned": end <= cleaned_to and path != paths[-1],
        }


def test_segment_row_equals_walk_over_its_batches(node):
    found = segment_rows(node)
    third = list_segments(node / "gapped-1")[2]
    expected = [
        *expected_rows(node / "gapped-1", "gapped", 1, third.base_offset),
        *expected_rows(node / "whole-0", "whole", 0, 0),
    ]
    assert len(found) > 5
    assert sum(row["is_cleaned"] for row in found) == 2
    assert sum(row["is_active"] for row in found) == 2
    for row, twin in zip(found, expected, strict=True):
        first, last = twin.pop("times")
        file = twin.pop("file")
        assert row["file"] in (file, file.removeprefix("file://")), row["file"]
        assert row["log_dir"] == str(node)
        for name, value in (("min_timestamp", first), ("max_timestamp", last)):
            since = row[name]
            micros = None if since is None else round(since.timestamp() * 1_000_000)
            assert micros == microseconds(value)
        assert {name: row[name] for name in twin} == twin


def test_segment_without_broker_has_no_broker_id(tmp_path):
    """The directory of a partition was copied out of its node."""
    node = make_node(tmp_path / "whole", 7)
    alone = write_partition(node, "t", 0, data_batches(2)).rename(tmp_path / "t-0")
    (row,) = segment_rows(alone, end="log_end")
    assert row["broker_id"] is None
    assert row["records"] == 20


def test_segment_deleted_after_listing_has_no_row(node):
    parsed = LogOptions.parse({"path": str(node), "level": "segments"})
    tasks = plan_segments(parsed).tasks
    first = min((node / "whole-0").glob("*.log"))
    first.unlink()
    rows = [
        r
        for task in tasks
        for b in read_segments(task, ReadRequest(COLUMNS))
        for r in b.to_pylist()
    ]
    assert len(rows) == len(segment_rows(node))
    assert str(first) not in {row["file"] for row in rows}


@pytest.mark.parametrize(("share", "groups"), [(1, None), (1 << 40, 1)])
def test_segments_are_grouped_by_bytes_without_loss(node, share, groups):
    origin = open_origin(LogOptions.parse({"path": str(node), "level": "segments"}))
    replicas = [copy for key in origin.partitions() for copy in origin.copies(key)]
    tasks = segment_tasks(replicas, share)
    segments = [segment for replica in replicas for segment in replica.segments]
    assert [task.segment for group in tasks for task in group] == segments
    assert len(tasks) == (groups or len(segments))
    half = sum(segment.size for segment in segments) // 2
    for group in segment_tasks(replicas, half)[:-1]:
        sizes = [task.segment.size for task in group]
        assert sum(sizes[:-1]) < half <= sum(sizes)
    assert segment_tasks([], share) == []


def records_of(root, columns, reader=read_records, **options):
    parsed = LogOptions.parse({"path": str(root), **options})
    wanted = read_request_of(parsed, columns)
    return [batch for task in plan_log(parsed).tasks for batch in reader(task, wanted)]


@pytest.mark.parametrize(
    "bounds",
    [{"CHUNK_RECORDS": 1}, {"CHUNK_RECORDS": 25}, {"CHUNK_BYTES": 1}, {"CHUNK_BYTES": 300}],
)
def test_chunks_are_bounded_and_change_no_row(node, monkeypatch, bounds):
    columns = ("topic", "offset", "value", "base_offset", "record_count")
    whole = records_of(node, columns, subscribe="whole")
    for name, value in bounds.items():
        monkeypatch.setattr(records_level, name, value)
    parts = records_of(node, columns, subscribe="whole")
    assert [row for b in parts for row in b.to_pylist()] == [
        row for b in whole for row in b.to_pylist()
    ]
    if "CHUNK_RECORDS" in bounds:
        for part in parts:
            batches = set(part.column("base_offset").to_pylist())
            assert len(part) <= bounds["CHUNK_RECORDS"] or len(batches) == 1


@pytest.mark.parametrize("chunk", [1, 5, 24, 25])
def test_batch_rows_come_in_chunks_of_given_size(node, monkeypatch, chunk):
    columns = ("topic", "base_offset")
    whole = [
        row
        for b in records_of(node, columns, read_batches, subscribe="whole")
        for row in b.to_pylist()
    ]
    assert len(whole) == 25
    monkeypatch.setattr(batches_level, "CHUNK_BATCHES", chunk)
    parts = records_of(node, columns, read_batches, subscribe="whole")
    assert [row for b in parts for row in b.to_pylist()] == whole
    assert max(map(len, parts)) <= chunk


def test_batch_with_unreadable_column_is_data_loss(tmp_path, caplog):
    """The batch has a right CRC, but its records cannot be decompressed: only a column that needs them is affected."""
    node = make_node(tmp_path, 1)
    records = [NewRecord(b"k", b"v" * 100, 5)]
    spoiled = bytearray(build_batch(records, base_offset=10, compression=Compression.GZIP))
    spoiled[HEADER_BYTES : HEADER_BYTES + 4] = b"none"
    CRC.pack_into(spoiled, CRC_POSITION, crc32c.crc32c(bytes(spoiled[CRC_START:])))
    good = build_batch(records, base_offset=11)
    write_partition(node, "t", 0, [data_batches(1)[0], bytes(spoiled), good])
    checkpoint(node, {("t", 0): 12})

    def offsets(*columns, **options):
        found = records_of(node, ("base_offset", *columns), read_batches, **options)
        return [row["base_offset"] for batch in found for row in batch.to_pylist()]

    assert offsets() == [0, 10, 11]
    with pytest.raises(DataUnreadable, match=r"t-0.*offset 10: "):
        offsets("uncompressed_bytes")
    assert offsets("uncompressed_bytes", failOnDataLoss="false") == [0, 11]
    assert "offset 10: " in caplog.text


@pytest.mark.parametrize("level", ["records", "segments"])
def test_empty_read_has_one_partition_without_rows(tmp_path, level):
    """Spark does not plan a read without partitions."""
    node = make_node(tmp_path, 1)
    write_partition(node, "t", 0, data_batches(1))
    checkpoint(node, {("t", 0): 10})
    options = {"path": str(node), "level": level, "subscribePattern": "none.*"}
    reader = LogReader(LogOptions.parse(options), ("topic",))
    (partition,) = reader.partitions()
    assert partition.value == ()
    assert [len(batch) for batch in reader.read(partition)] in ([], [0])


def names_of(**options):
    return KafkaLogSource({"path": "/data", **options}).schema().names


def test_schema_has_columns_of_level_and_options():
    plain = [name for name in RECORD_SCHEMA.names if name != "headers"]
    assert names_of() == plain
    assert names_of(includeHeaders="true") == RECORD_SCHEMA.names
    informed = names_of(includeBatchInfo="true")
    assert informed[: len(plain)] == plain
    assert "crc" in informed
    assert "headers" not in informed
    assert names_of(level="segments") == list(COLUMNS)
    assert "uncompressed_bytes" not in names_of(level="batches")
    assert "crc" in names_of(level="batches")
    assert names_of(columns="offset, value") == ["offset", "value"]
    assert names_of(level="batches", columns="uncompressed_bytes") == ["uncompressed_bytes"]
    # Options that apply only to streams are not an error yet: Spark does not tell the two apart.
    assert names_of(startingOffsets="latest") == plain


def test_unknown_column_is_refused_with_known_ones():
    with pytest.raises(OptionError, match="option columns: no column other; there are: key, value"):
        names_of(columns="offset,other")


def test_options_unknown_to_batch_and_stream_are_refused():
    with pytest.raises(OptionError, match="nonsense"):
        names_of(nonsense="1")


def test_unreadable_stream_raises_when_it_is_read():
    """PySpark loses errors that are raised earlier."""
    reader = KafkaLogSource({"path": "/data", "level": "segments"}).streamReader(None)
    assert isinstance(reader, FailedStreamReader)


def test_read_ends_where_any_cleaner_ended(tmp_path):
    """Two replicas, compacted up to different offsets, and a third that no cleaner has seen."""
    batches = data_batches(6)
    for node_id, cleaned in ((1, 20), (2, 30), (3, None)):
        made = make_node(tmp_path, node_id)
        write_partition(made, "t", 0, batches)
        checkpoint(made, {("t", 0): 60}, cleaned={("t", 0): cleaned} if cleaned else None)

    def rows(*columns, **options):
        parsed = LogOptions.parse({"path": str(tmp_path), "replicas": "all", **options})
        reader = LogReader(parsed, columns)
        found = [batch for task in reader.partitions() for batch in reader.read(task)]
        return [tuple(row.values()) for batch in found for row in batch.to_pylist()]

    last = dict(rows("broker_id", "offset", end="cleaner_offset"))
    assert last == {1: 29, 2: 29, 3: 29}
    columns = ("broker_id", "cleaner_offset", "log_start_offset")
    heads = rows(*columns, level="batches", end="log_end")
    assert set(heads) == {(1, 20, 0), (2, 30, 0), (3, 0, 0)}
