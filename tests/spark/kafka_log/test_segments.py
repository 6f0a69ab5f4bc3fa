"""How segments are divided among tasks, and the complete row of one."""

import datetime as dt
from types import SimpleNamespace

import pytest

from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.disk.files import REAL_FILES
from trimaran.spark.kafka_log.segments import (
    SEGMENT_SCHEMA,
    SegmentTask,
    read_segments,
    segment_tasks,
)
from trimaran.wire.identity import TopicPartition


def replica(*sizes):
    return SimpleNamespace(log="log", segments=[SimpleNamespace(size=size) for size in sizes])


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([[]], []),
        ([[5]], [[5]]),
        ([[9, 1, 1]], [[9, 1], [1]]),
        ([[10, 10]], [[10], [10]]),
        ([[10, 9, 1]], [[10], [9, 1]]),
        ([[3, 3], [3, 3]], [[3, 3, 3, 3]]),
        ([[3], [3, 4], [1]], [[3, 3, 4], [1]]),
        ([[99, 1], [1]], [[99], [1, 1]]),
    ],
)
def test_segments_are_grouped_by_about_equal_size(sizes, expected):
    tasks = segment_tasks([replica(*some) for some in sizes], 10)
    assert [[piece.segment.size for piece in task] for task in tasks] == expected
    active = [piece.segment.size for task in tasks for piece in task if piece.is_active]
    assert active == [some[-1] for some in sizes if some]


def batch(offset, *times):
    return build_batch([NewRecord(None, b"v", time) for time in times], base_offset=offset)


def row_of(tmp_path, data, *, cleaned_to=0, is_active=False, node_id=7, log_dir="/d"):
    path = tmp_path / f"{5:020d}.log"
    path.write_bytes(data)
    storage = SimpleNamespace(files=REAL_FILES, url=lambda path: f"file:{path}")
    found = SimpleNamespace(
        key=TopicPartition("t", 3), node_id=node_id, log_dir=log_dir, storage=storage
    )
    log = SimpleNamespace(found=found, cleaned_to=cleaned_to)
    segment = SimpleNamespace(path=path, base_offset=5, size=len(data))
    wanted = SimpleNamespace(columns=SEGMENT_SCHEMA.names)
    (rows,) = read_segments([SegmentTask(log, segment, is_active)], wanted)
    return rows.to_pylist(), path


def moment(ms):
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def test_segment_row_has_values_of_its_batches(tmp_path):
    data = batch(5, 2000, 9000) + batch(9, 1000) + batch(10, 3000, 4000)
    rows, path = row_of(tmp_path, data, cleaned_to=12)
    assert rows == [
        {
            "topic": "t",
            "partition": 3,
            "broker_id": 7,
            "log_dir": "/d",
            "file": f"file:{path}",
            "base_offset": 5,
            "next_offset": 12,
            "size_bytes": len(data),
            "batches": 3,
            "records": 5,
            "missing_offsets": 2,
            "min_timestamp": moment(1000),
            "max_timestamp": moment(9000),
            "is_active": False,
            "is_cleaned": True,
        }
    ]


def test_empty_segment_has_no_times(tmp_path):
    ((row,), _) = row_of(tmp_path, b"", node_id=-1, log_dir="", cleaned_to=4)
    assert (row["broker_id"], row["log_dir"], row["next_offset"]) == (None, None, 5)
    assert (row["batches"], row["records"], row["missing_offsets"]) == (0, 0, 0)
    assert (row["min_timestamp"], row["max_timestamp"], row["is_cleaned"]) == (None, None, False)


@pytest.mark.parametrize(
    ("cleaned_to", "is_active", "is_cleaned"),
    [(5, False, False), (6, False, True), (7, False, True), (6, True, False)],
)
def test_segment_is_cleaned_if_below_cleaners_offset(tmp_path, cleaned_to, is_active, is_cleaned):
    ((row,), _) = row_of(tmp_path, batch(5, 1), cleaned_to=cleaned_to, is_active=is_active)
    assert (row["is_active"], row["is_cleaned"]) == (is_active, is_cleaned)


def test_broker_0_is_named_like_others(tmp_path):
    ((row,), _) = row_of(tmp_path, batch(5, 1), node_id=0)
    assert row["broker_id"] == 0


@pytest.mark.parametrize(
    ("batches", "least", "most"),
    [
        ([(1000, 9000), (2000,), (3000, 4000)], 1000, 9000),
        ([(5000, 6000), (1000, 9000), (3000, 4000)], 1000, 9000),
        ([(5000, 6000), (4000, 7000), (2000, 8000)], 2000, 8000),
    ],
)
def test_segment_times_are_extremes_of_all_batches(tmp_path, batches, least, most):
    data = b"".join(batch(5 + 3 * number, *times) for number, times in enumerate(batches))
    ((row,), _) = row_of(tmp_path, data)
    assert (row["min_timestamp"], row["max_timestamp"]) == (moment(least), moment(most))


def test_batch_with_wrong_crc_is_counted_by_header(tmp_path):
    damaged = bytearray(batch(5, 1000))
    damaged[-1] ^= 1
    ((row,), _) = row_of(tmp_path, bytes(damaged))
    assert (row["batches"], row["next_offset"]) == (1, 6)


def test_removed_segment_has_no_row(tmp_path):
    storage = SimpleNamespace(files=REAL_FILES, url=str)
    log = SimpleNamespace(found=SimpleNamespace(storage=storage), cleaned_to=0)
    gone = SegmentTask(log, SimpleNamespace(path=tmp_path / "gone.log", base_offset=0), False)
    wanted = SimpleNamespace(columns=SEGMENT_SCHEMA.names)
    (rows,) = read_segments([gone], wanted)
    assert rows.num_rows == 0
