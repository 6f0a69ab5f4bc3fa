"""From directories to rows, without Spark: the end of data, ranges, gaps, damage."""

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.directories import (
    checkpoint,
    control_batch,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.inspection.reader import list_segments
from trimaran.spark.data_source.read_request import ReadRequest
from trimaran.spark.kafka_log.batches import BATCH_COLUMNS, read_batches
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import RECORD_SCHEMA, read_records
from trimaran.spark.kafka_log.source import read_request_of
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.origins.packing import pack, share_of

BATCHES = data_batches(30, gaps=True)
END = next_offset(BATCHES)
CLEANED = {("my-topic", 3): END}


@pytest.fixture
def node(tmp_path):
    made = make_node(tmp_path, 1)
    write_partition(made, "my-topic", 3, BATCHES)
    checkpoint(made, {("my-topic", 3): END}, cleaned=CLEANED)
    return made


def expected(batches, start=0, end=END):
    rows = []
    for view in iter_batches(memoryview(b"".join(batches))):
        for r in decode_records(view):
            headers = [{"key": k, "value": v} for k, v in r.headers] or None
            rows.append((r.offset, r.timestamp_ms, r.key, r.value, headers))
    return [row for row in rows if start <= row[0] < end]


def read(root, *, columns=tuple(RECORD_SCHEMA.names), reader=read_records, **options):
    parsed = LogOptions.parse({"path": str(root), **options})
    wanted = read_request_of(parsed, columns)
    tasks = pickle.loads(pickle.dumps(plan_log(parsed).tasks))
    return [row for task in tasks for b in reader(task, wanted) for row in b.to_pylist()]


def rows_of(found):
    stamps = pa.array([r["timestamp"] for r in found], pa.timestamp("us", "UTC")).cast(pa.int64())
    return [
        (r["offset"], ms // 1000, r["key"], r["value"], r["headers"])
        for r, ms in zip(found, stamps.to_pylist(), strict=True)
    ]


def test_every_record_is_read_across_segments(node):
    assert len(list_segments(node / "my-topic-3")) > 3
    found = read(node)
    assert rows_of(found) == expected(BATCHES)
    assert {(r["topic"], r["partition"], r["timestampType"]) for r in found} == {("my-topic", 3, 0)}


@pytest.mark.parametrize("split_bytes", [1, 500, 3000])
def test_splitting_changes_nothing(node, split_bytes):
    options = LogOptions.parse({"path": str(node), "splitBytes": str(split_bytes)})
    assert len(plan_log(options).tasks) > 1
    assert rows_of(read(node, splitBytes=str(split_bytes))) == expected(BATCHES)


def test_splitting_without_indexes_changes_nothing(node):
    for index in (node / "my-topic-3").glob("*.index"):
        index.write_bytes(b"\x00\x00\x00\x07\xff\xff\xff\xff")
    assert rows_of(read(node, splitBytes="500")) == expected(BATCHES)


def test_segment_is_split_evenly(node):
    [task] = plan_log(LogOptions.parse({"path": str(node)})).tasks
    largest = max(piece.size for piece in task)
    split = LogOptions.parse({"path": str(node), "splitBytes": str(largest * 9 // 10)})
    sizes = [piece.size for t in plan_log(split).tasks for piece in t]
    assert len(sizes) > len(task)
    assert min(sizes) > largest // 4  # no task has only the last tenth


@pytest.mark.parametrize(
    ("total", "cores", "share"),
    [(0, 2, 32), (100, 2, 50), (1024, 2, 128), (1024, 16, 64), (1024, 64, 32), (1 << 20, 64, 128)],
)
def test_tasks_are_large_but_use_every_core(total, cores, share):
    assert share_of(total << 20, cores) == share << 20


def test_min_partitions_sets_number_of_tasks(node):
    assert len(plan_log(LogOptions.parse({"path": str(node), "minPartitions": "4"})).tasks) >= 4


def test_only_requested_columns_are_read(node):
    assert read(node, columns=("offset", "topic"))[0] == {"offset": 0, "topic": "my-topic"}


def test_offsets_inside_batches_cut_the_read(node):
    both = {
        "startingOffsets": '{"my-topic":{"3":14}}',
        "endingOffsets": '{"my-topic":{"3":157}}',
    }
    assert rows_of(read(node, **both)) == expected(BATCHES, 14, 157)


@pytest.mark.parametrize("high_watermark", [0, 11, 154, END])
def test_data_ends_at_the_high_watermark(node, high_watermark):
    checkpoint(node, {("my-topic", 3): high_watermark})
    assert rows_of(read(node)) == expected(BATCHES, 0, high_watermark)
    assert rows_of(read(node, end="log_end")) == expected(BATCHES)


@pytest.mark.parametrize("text", [None, b"", b"0\n1\nother 0 7\n"])
def test_partition_without_checkpoint_is_never_left_out_silently(node, text):
    """Kafka creates the file empty at its start; a topic may be younger than the last write."""
    (node / "replication-offset-checkpoint").unlink()
    if text is not None:
        (node / "replication-offset-checkpoint").write_bytes(text)
    with pytest.raises(
        DataUnreadable, match=r"it is not known which of the offsets 0 to 328 .* end=log_end"
    ):
        read(node)
    assert read(node, failOnDataLoss="false") == []
    assert rows_of(read(node, end="log_end")) == expected(BATCHES)


def test_damaged_checkpoint_is_an_error(node):
    (node / "replication-offset-checkpoint").write_bytes(b"0\n2\nmy-topic 3 5\n")
    with pytest.raises(DataUnreadable, match="2 entries announced"):
        read(node)


def test_log_shorter_than_high_watermark_is_an_error(node):
    checkpoint(node, {("my-topic", 3): END + 1})
    with pytest.raises(DataUnreadable, match="before its high watermark"):
        read(node)


def test_records_before_the_log_start_are_gone(node):
    checkpoint(node, {("my-topic", 3): END}, {("my-topic", 3): 25})
    assert rows_of(read(node)) == expected(BATCHES, 25)


def test_replica_with_most_committed_records_is_read(node, tmp_path):
    behind = make_node(tmp_path, 2)
    write_partition(behind, "my-topic", 3, BATCHES[:20])
    checkpoint(behind, {("my-topic", 3): 50}, cleaned=CLEANED)
    assert rows_of(read(tmp_path)) == expected(BATCHES)
    assert len(read(tmp_path, replicas="all")) == len(expected(BATCHES)) + len(
        expected(BATCHES, 0, 50)
    )


def test_torn_tail_is_not_read(node):
    last = list_segments(node / "my-topic-3")[-1]
    with open(last.path, "ab") as file:
        file.write(BATCHES[-1][:-3])
    assert rows_of(read(node, end="log_end")) == expected(BATCHES)
    with open(last.path, "ab") as file:
        file.write(bytes(5000))
    assert rows_of(read(node)) == expected(BATCHES)


def test_last_batch_with_wrong_crc_is_torn_write(node):
    last = list_segments(node / "my-topic-3")[-1]
    with open(last.path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    assert rows_of(read(node, end="log_end")) == expected(BATCHES[:-1])
    with pytest.raises(DataUnreadable, match="before its high watermark"):
        read(node)


@pytest.mark.parametrize("segment", [0, 2])
def test_damage_is_an_error_and_never_skipped(node, segment):
    file = list_segments(node / "my-topic-3")[segment]
    data = bytearray(Path(file.path).read_bytes())
    data[200] ^= 1
    Path(file.path).write_bytes(data)
    with pytest.raises(DataUnreadable, match="damaged at position"):
        read(node)


def test_without_crc_check_damage_is_shown_in_batches(node):
    file = list_segments(node / "my-topic-3")[0]
    data = bytearray(Path(file.path).read_bytes())
    data[len(BATCHES[0]) - 1] ^= 1
    Path(file.path).write_bytes(data)
    found = read(
        node,
        reader=read_batches,
        columns=("base_offset", "crc_valid"),
        level="batches",
        verifyCrc="false",
    )
    assert [b["base_offset"] for b in found if not b["crc_valid"]] == [0]
    assert len(found) == len(BATCHES)


def test_control_batches_are_shown_on_request(tmp_path):
    node = make_node(tmp_path, 1)
    batches = [*data_batches(1), control_batch(10), *data_batches(3)[2:]]
    write_partition(node, "t", 0, batches)
    checkpoint(node, {("t", 0): 30}, cleaned={("t", 0): 30})
    assert rows_of(read(node)) == expected([batches[0], batches[2]])
    found = read(
        node,
        reader=read_batches,
        columns=("base_offset", "control_type"),
        level="batches",
        includeControl="true",
    )
    assert [(b["base_offset"], b["control_type"]) for b in found] == [
        (0, None),
        (10, "COMMIT"),
        (20, None),
    ]


def test_batch_rows_match_headers(node):
    found = read(node, reader=read_batches, columns=tuple(BATCH_COLUMNS), level="batches")
    assert [b["base_offset"] for b in found] == [11 * i for i in range(30)]
    assert [b["compression"] for b in found[:5]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert all(b["record_count"] == 10 and b["crc_valid"] for b in found)
    assert found[0]["uncompressed_bytes"] == found[0]["batch_bytes"]
    for b in found:
        with open(b["file"], "rb") as file:
            file.seek(b["position"])
            assert int.from_bytes(file.read(8), "big") == b["base_offset"]


def test_segment_deleted_after_planning_is_read_or_error(node):
    tasks = plan_log(LogOptions.parse({"path": str(node)})).tasks
    first = list_segments(node / "my-topic-3")[0].path
    os.rename(first, first + ".deleted")
    wanted = ReadRequest(("offset",))
    assert sum(b.num_rows for t in tasks for b in read_records(t, wanted)) == len(expected(BATCHES))
    os.unlink(first + ".deleted")
    with pytest.raises(DataUnreadable, match="deleted or compacted"):
        list(read_records(tasks[0], wanted))


def test_segment_replaced_by_compaction_is_an_error(node):
    tasks = plan_log(LogOptions.parse({"path": str(node)})).tasks
    first = list_segments(node / "my-topic-3")[0].path
    data = Path(first).read_bytes()
    Path(first + ".swap").write_bytes(data[len(BATCHES[0]) :])
    os.replace(first + ".swap", first)
    with pytest.raises(DataUnreadable, match="compacted"):
        list(read_records(tasks[0], ReadRequest(("offset",))))


def test_batch_emptied_by_compaction_has_no_rows(tmp_path):
    """Kafka keeps the header of a batch that compaction emptied, codec bits included, to preserve the producer's last
    sequence.
    """
    import crc32c

    node = make_node(tmp_path, 1)
    batches = data_batches(3)
    empty = bytearray(batches[1][:61])
    empty[8:12] = (49).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    empty[17:21] = crc32c.crc32c(bytes(empty[21:])).to_bytes(4, "big")
    directory = node / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(batches[0] + empty + batches[2])
    checkpoint(node, {("t", 0): 30})
    assert rows_of(read(node)) == expected([batches[0], batches[2]])
    found = read(
        node, reader=read_batches, columns=("record_count", "uncompressed_bytes"), level="batches"
    )
    assert found[1] == {"record_count": 0, "uncompressed_bytes": 61}


def test_empty_partition_has_no_rows(tmp_path):
    node = make_node(tmp_path, 1)
    (node / "t-0").mkdir()
    assert read(node) == []


def test_missing_data_is_an_error(tmp_path):
    with pytest.raises(DataUnreadable, match=r"meta\.properties"):
        read(tmp_path)


def test_tasks_hold_about_the_target(node):
    [task] = plan_log(LogOptions.parse({"path": str(node)})).tasks
    tasks = pack(task, 2500)
    assert [piece for t in tasks for piece in t] == list(task)
    assert all(len(t) == 1 or sum(p.size for p in t) <= 2500 for t in tasks)


@pytest.mark.parametrize("broken", [1 << 62, -(1 << 62)])
def test_time_outside_of_timestamps_is_null(tmp_path, broken):
    node = make_node(tmp_path, 1)
    batch = build_batch(
        [NewRecord(b"k", b"v", broken), NewRecord(b"k", b"v", broken)], base_offset=0
    )
    write_partition(node, "t", 0, [batch])
    checkpoint(node, {("t", 0): 2})
    assert [row["timestamp"] for row in read(node)] == [None, None]
    columns = ("base_timestamp", "max_timestamp")
    found = read(node, reader=read_batches, columns=columns, level="batches")
    assert found == [{"base_timestamp": None, "max_timestamp": None}]
