"""Missing and damaged data: an error by default, a warning with failOnDataLoss=false."""

import logging
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    records,
    write_partition,
)
from tests.spark.kafka_log.test_reading import read
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import build_batch
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.inspection.reader import list_segments
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable

BATCHES = data_batches(30)
END = next_offset(BATCHES)
KEY = ("t", 0)


@pytest.fixture
def node(tmp_path):
    made = make_node(tmp_path, 1)
    write_partition(made, "t", 0, BATCHES, segment_bytes=1000)
    checkpoint(made, {KEY: END})
    return made


def offsets(root, **options):
    return [row["offset"] for row in read(root, columns=("offset",), **options)]


def segments(node):
    return list_segments(node / "t-0")


def between(first, following):
    return list(range(first.base_offset, following.base_offset))


def what_is_left(node, caplog, told, lost):
    """Asserts an error by default, and with failOnDataLoss=false all remaining rows and a warning with the same text."""
    for options in ({}, {"end": "log_end"}, {"splitBytes": "500"}):
        with pytest.raises(DataUnreadable, match=f"(?s){told}.*failOnDataLoss=false"):
            offsets(node, **options)
    with caplog.at_level(logging.WARNING):
        assert offsets(node, failOnDataLoss="false") == [o for o in range(END) if o not in lost]
    assert "left out" in caplog.text


@pytest.mark.parametrize("how", ["deleted", "emptied", "cut at a batch"])
@pytest.mark.parametrize("index", [0, 1, 3])
def test_removed_segment_is_reported(node, caplog, index, how):
    segment, following = segments(node)[index : index + 2]
    path, lost = Path(segment.path), between(segment, following)
    if how == "deleted":
        path.unlink()
        for other in path.parent.glob(path.stem + ".*"):
            other.unlink()
    elif how == "emptied":
        os.truncate(path, 0)
    else:
        first = next(iter_batches(memoryview(path.read_bytes())))
        os.truncate(path, first.size)
        lost = [offset for offset in lost if offset >= first.next_offset]
    assert lost
    what_is_left(node, caplog, "are missing", lost)


def test_last_segment_truncated_at_batch_is_loss(node, caplog):
    last = segments(node)[-1]
    first = next(iter_batches(memoryview(Path(last.path).read_bytes())))
    os.truncate(last.path, first.size)
    with pytest.raises(DataUnreadable, match="before its high watermark"):
        offsets(node)
    assert offsets(node, failOnDataLoss="false") == list(range(first.next_offset))


def test_loss_of_all_segments_is_reported(node):
    for segment in segments(node):
        os.unlink(segment.path)
    with pytest.raises(DataUnreadable, match=f"offsets 0 to {END - 1} are missing"):
        offsets(node)


def test_log_trimmed_by_retention_misses_nothing(node):
    """Retention advances the first epoch with the log's start."""
    first, following = segments(node)[:2]
    for path in Path(first.path).parent.glob(Path(first.path).stem + ".*"):
        path.unlink()
    (node / "t-0" / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {following.base_offset}\n")
    assert offsets(node) == list(range(following.base_offset, END))


def test_log_trimmed_during_read_misses_nothing(node):
    """The file of epochs is written slightly later; the segments are renamed first."""
    first, following = segments(node)[:2]
    for path in list(Path(first.path).parent.glob(Path(first.path).stem + ".*")):
        path.rename(f"{path}.deleted")
    assert offsets(node) == list(range(following.base_offset, END))


@pytest.mark.parametrize("field", ["length", "crc", "records"])
@pytest.mark.parametrize("index", [0, 2, -1])
def test_damage_of_any_kind_is_reported(node, caplog, field, index):
    """This includes the last segment, because intact batches follow: it is not a torn write."""
    segment = segments(node)[index]
    path = Path(segment.path)
    batches = list(iter_batches(memoryview(path.read_bytes())))
    assert len(batches) > 1
    data = bytearray(path.read_bytes())
    victim = batches[0]
    data[{"length": 10, "crc": 18, "records": victim.size - 1}[field]] ^= 0x55
    path.write_bytes(data)
    lost = range(victim.base_offset, victim.next_offset)
    what_is_left(node, caplog, "damaged at position 0", lost)


def test_longer_stale_replica_is_not_chosen(tmp_path):
    """The stale replica missed an election: its epoch is older, and it holds records that the new leader truncated."""
    shared = [build_batch(records(10, tag="a"), base_offset=0, leader_epoch=1)]
    stale = [*shared, build_batch(records(30, tag="lost"), base_offset=10, leader_epoch=1)]
    fresh = [*shared, build_batch(records(5, tag="new"), base_offset=10, leader_epoch=2)]
    for node_id, batches, mark in ((1, stale, 40), (2, fresh, 15)):
        made = make_node(tmp_path, node_id)
        write_partition(made, "t", 0, batches)
        checkpoint(made, {KEY: mark})
    for end in ("high_watermark", "log_end"):
        found = read(tmp_path, columns=("offset", "value"), end=end)
        assert [row["offset"] for row in found] == list(range(15))
        assert not [row for row in found if b"lost" in (row["value"] or b"")]


def test_high_watermark_is_that_of_equal_replicas(tmp_path):
    for node_id, mark in ((1, 20), (2, END)):
        made = make_node(tmp_path, node_id)
        write_partition(made, "t", 0, BATCHES)
        checkpoint(made, {KEY: mark})
    assert offsets(tmp_path) == list(range(END))
    assert offsets(tmp_path / "node-1") == list(range(20))


def test_directories_of_two_clusters_are_refused(tmp_path):
    for cluster in ("a", "b"):
        made = make_node(tmp_path / cluster, 1)
        write_partition(made, "t", 0, BATCHES)
        checkpoint(made, {KEY: END})
    node = tmp_path / "b" / "node-1"
    replace(MetaProperties.load(node), cluster_id="another").save(node)
    with pytest.raises(OptionError, match=r"two clusters: .* is of (cluster|another)"):
        offsets(tmp_path)


# --- missing data that the user requested ---


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "t,absent"}, "there is no absent; topics found: t"),
        ({"assign": '{"t":[0,7]}'}, "there is no t-7"),
    ],
)
def test_missing_topics_are_reported(node, options, told):
    with pytest.raises(DataUnreadable, match=told):
        offsets(node, **options)


def test_offsets_by_partition_must_name_all_partitions(node):
    write_partition(node, "t", 1, BATCHES[:2])
    checkpoint(node, {KEY: END, ("t", 1): 20})
    with pytest.raises(OptionError, match="t-1 is missing"):
        offsets(node, startingOffsets='{"t":{"0":5}}')
    with pytest.raises(OptionError, match="u-0 is not among the partitions"):
        offsets(node, startingOffsets='{"t":{"0":5,"1":-2},"u":{"0":1}}')


@pytest.mark.parametrize(("option", "wrong"), [("startingOffsets", 24), ("endingOffsets", END + 1)])
def test_offsets_outside_of_log_are_reported(node, option, wrong, caplog):
    checkpoint(node, {KEY: END}, {KEY: 25})
    given = {option: f'{{"t":{{"0":{wrong}}}}}'}
    with pytest.raises(DataUnreadable, match=f"offsets 25 to {END}, {wrong} is outside"):
        offsets(node, **given)
    assert offsets(node, **given, failOnDataLoss="false") == list(range(25, END))
    assert f"{wrong} is outside of them" in caplog.text


@pytest.mark.parametrize("fail", ["true", "false"])
def test_offsets_that_enclose_nothing_are_refused(node, fail):
    checkpoint(node, {KEY: END}, {KEY: 25})
    for option, wrong in (("startingOffsets", END + 1), ("endingOffsets", 24)):
        given = {option: f'{{"t":{{"0":{wrong}}}}}'}
        with pytest.raises(OptionError, match=r"behind offset \d+, where endingOffsets ends"):
            offsets(node, **given, failOnDataLoss=fail)


# --- other locations ---


def test_copy_at_another_location_is_read(node, tmp_path):
    """Executors may have another kind of mount: a file counts by its content."""
    from trimaran.spark.data_source.read_request import ReadRequest
    from trimaran.spark.kafka_log.options import LogOptions
    from trimaran.spark.kafka_log.plan import plan_log
    from trimaran.spark.kafka_log.records import read_records

    tasks = plan_log(LogOptions.parse({"path": str(node), "splitBytes": "500"})).tasks
    assert len(tasks) > 5
    shutil.copytree(node, tmp_path / "copy")
    shutil.rmtree(node)
    (tmp_path / "copy").rename(node)
    found = [b.num_rows for task in tasks for b in read_records(task, ReadRequest(("offset",)))]
    assert sum(found) == END


def test_relative_paths_and_file_urls_are_read(node, monkeypatch):
    monkeypatch.chdir(node.parent)
    for given in (
        node.name,
        f"./{node.name}/",
        f"file://{node}",
        f"file:{node}",
        f"{node}/../node-*",
    ):
        assert offsets(given) == list(range(END)), given


def test_partitions_directory_or_single_segment_is_read(node):
    assert offsets(node / "t-0") == list(range(END))
    second, third = segments(node)[1:3]
    assert offsets(second.path) == between(second, third)
    copied = node.parent / "elsewhere" / "t-0"
    shutil.copytree(node / "t-0", copied)
    with pytest.raises(DataUnreadable, match="it is not known which of the offsets"):
        offsets(copied)
    assert offsets(copied, end="log_end") == list(range(END))


def test_circular_links_and_non_files_are_skipped(node):
    (node.parent / "circle").symlink_to(node.parent, target_is_directory=True)
    (node / "t-0" / "loop").symlink_to(node / "t-0" / "loop")
    os.mkfifo(node / "t-0" / f"{END:020d}.log")
    assert offsets(node.parent) == list(range(END))


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("nonsense://bucket/x", "nonsense"),
        ("s3://bucket/x", "s3fs"),
        ("file://host/x", "file:///PATH"),
    ],
)
def test_unopenable_file_is_reported(url, told, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "s3fs", None)  # treated as not installed
    with pytest.raises(OptionError, match=told):
        offsets(url)


def test_any_file_system_of_fsspec_is_read(node, monkeypatch):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(node), "/kafka/node-1", recursive=True)
    try:
        for given in ("memory://kafka", "memory://kafka/node-1/t-0", "memory://kafka/node-*"):
            assert offsets(given, splitBytes="700") == list(range(END)), given
        assert read("memory://kafka", columns=("offset", "file"), includeBatchInfo="true")[0] == {
            "offset": 0,
            "file": f"memory:///kafka/node-1/t-0/{0:020d}.log",
        }
    finally:
        memory.rm("/kafka", recursive=True)


# --- sizes ---


def test_rows_are_bounded_by_what_they_decompress_to(tmp_path):
    """A few hundred stored bytes may hold megabytes; Arrow batches nevertheless stay below 32 MB."""
    from trimaran.log.batches.records import NewRecord
    from trimaran.log.codecs.compression import Compression
    from trimaran.spark.data_source.read_request import ReadRequest
    from trimaran.spark.kafka_log.options import LogOptions
    from trimaran.spark.kafka_log.plan import plan_log
    from trimaran.spark.kafka_log.records import read_records

    made = make_node(tmp_path, 1)
    rows = [NewRecord(b"k", bytes(100 << 10), 0)] * 700
    large = [build_batch(rows, base_offset=700 * i, compression=Compression.ZSTD) for i in range(2)]
    assert sum(map(len, large)) < 100 << 10
    write_partition(made, "t", 0, large, segment_bytes=1 << 20)
    checkpoint(made, {KEY: 1400})
    [task] = plan_log(LogOptions.parse({"path": str(tmp_path)})).tasks
    batches = list(read_records(task, ReadRequest(("key", "value", "offset"))))
    assert max(batch.nbytes for batch in batches) <= 32 << 20
    assert [o for b in batches for o in b.column("offset").to_pylist()] == list(range(1400))


def test_batch_at_log_start_counts_remaining_records(node):
    from trimaran.spark.kafka_log.batches import read_batches

    checkpoint(node, {KEY: END}, {KEY: 25})
    found = read(
        node, columns=("base_offset", "record_count"), reader=read_batches, level="batches"
    )
    assert found[:2] == [
        {"base_offset": 20, "record_count": 5},
        {"base_offset": 30, "record_count": 10},
    ]
    assert sum(row["record_count"] for row in found) == END - 25
