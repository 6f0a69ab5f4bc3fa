"""Streams over topics that were deleted and created again, between two runs and while a query runs: an error, or the
new topic from its beginning; and checkpoints with and without topic ids.
"""

import json
import shutil

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from tests.spark.kafka_log.test_stream import Log, in_spark, reader_of, rows, run, written
from trimaran.log.disk.partition_metadata import FILE_NAME, format_partition_metadata
from trimaran.spark.data_source.stream_offsets import StreamOffsets
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.buffers.primitives import uuid_to_text

FIRST, SECOND = bytes(range(16)), bytes(range(16, 32))
OLD, NEW = (f"orders@{uuid_to_text(topic_id)}" for topic_id in (FIRST, SECOND))
BATCHES = data_batches(30)
END = next_offset(BATCHES)


def create(log, topic_id, partitions, batches):
    """Creates the topic, in place of an earlier one."""
    for directory in log.node.glob("orders-*"):
        shutil.rmtree(directory)
    log.marks.clear()
    for number in range(partitions):
        log.put(number, batches)
        (log.node / f"orders-{number}" / FILE_NAME).write_bytes(format_partition_metadata(topic_id))


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path / "data")
    create(made, FIRST, 2, BATCHES[:10])
    return made


def latest(reader, start):
    return reader.latestOffset(start, ReadAllAvailable())


def at(*offsets, topic):
    return {"orders": {str(n): offset for n, offset in enumerate(offsets)}, topic: {}}


def test_offsets_carry_the_id_of_their_topic(log):
    reader = reader_of(log, startingOffsets="earliest")
    start = reader.initialOffset()
    assert start == at(0, 0, topic=OLD)
    assert latest(reader, start) == at(100, 100, topic=OLD)
    assert list(latest(reader, start)) == ["orders", OLD]  # equal offsets are equal texts


@pytest.mark.parametrize("batches", [3, 10, 30], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("partitions", [1, 2, 3], ids=["fewer", "equal", "more"])
def test_recreated_topic_fails_or_begins_anew(log, caplog, batches, partitions):
    create(log, SECOND, partitions, BATCHES[:batches])
    start = at(100, 100, topic=OLD)
    with pytest.raises(DataUnreadable, match=r"orders was deleted and created again .*false"):
        latest(reader_of(log), start)
    lenient = reader_of(log, failOnDataLoss="false")
    end = latest(lenient, start)
    assert end == at(*[10 * batches] * partitions, topic=NEW)
    expected = [(p, o) for p in range(partitions) for o in range(10 * batches)]
    assert rows(lenient, start, end) == expected
    assert latest(lenient, end) == end
    assert caplog.text.count("the new one is read from its beginning") == 1
    assert "is gone" not in caplog.text


def test_old_topics_planned_batch_is_not_read(log, caplog):
    """Spark repeats the micro-batch that its last run has planned."""
    create(log, SECOND, 2, BATCHES)
    start, end = at(0, 20, topic=OLD), at(100, 20, topic=OLD)
    told = "created again .* offsets 0 to 99 of orders-0 were not read"
    with pytest.raises(DataUnreadable, match=told):
        reader_of(log).partitions(start, end)
    lenient = reader_of(log, failOnDataLoss="false")
    assert rows(lenient, start, end) == []
    assert latest(lenient, end) == at(END, END, topic=NEW)
    assert "were not read" in caplog.text


def test_topic_recreated_between_plan_and_read_is_reported(log, caplog):
    start, end = at(0, 100, topic=OLD), at(100, 100, topic=OLD)
    for fail in ("true", "false"):
        create(log, FIRST, 2, BATCHES[:10])
        reader = reader_of(log, failOnDataLoss=fail)
        tasks = reader.partitions(start, end)
        create(log, SECOND, 2, BATCHES)
        if fail == "true":
            with pytest.raises(DataUnreadable, match="orders was deleted and created again since"):
                [batch for task in tasks for batch in reader.read(task)]
        else:
            assert [batch.num_rows for task in tasks for batch in reader.read(task)] == []
            assert "orders was deleted and created again since" in caplog.text


def test_stream_of_deleted_topic_waits_for_new_one(log, caplog):
    for directory in log.node.glob("orders-*"):
        shutil.rmtree(directory)
    log.node.joinpath("other-0").mkdir()
    start = at(100, 100, topic=OLD)
    with pytest.raises(DataUnreadable, match="there is no orders"):
        latest(reader_of(log, subscribe="orders"), start)
    lenient = reader_of(log, subscribe="orders", failOnDataLoss="false")
    assert latest(lenient, start) == latest(lenient, start) == start
    assert "there is no orders" in caplog.text
    assert caplog.text.count("orders-0 is gone") == 1
    create(log, SECOND, 1, BATCHES[:2])
    end = latest(lenient, start)
    assert end == at(20, topic=NEW)
    assert rows(lenient, start, end) == [(0, o) for o in range(20)]


def test_partition_that_comes_back_continues(log, tmp_path, caplog):
    """The disk of the partition may have been unmounted for a time. Its records are not read twice."""
    start = at(100, 60, topic=OLD)
    lenient = reader_of(log, failOnDataLoss="false")
    for _ in range(2):
        (log.node / "orders-1").rename(tmp_path / "away")
        assert latest(lenient, start) == start
        (tmp_path / "away").rename(log.node / "orders-1")
    assert caplog.text.count("orders-1 is gone") == 1
    end = latest(lenient, start)
    assert end == at(100, 100, topic=OLD)
    assert rows(lenient, start, end) == [(1, o) for o in range(60, 100)]
    (log.node / "orders-1").rename(tmp_path / "away")
    assert latest(lenient, end) == end
    assert caplog.text.count("orders-1 is gone") == 2


def test_checkpoint_without_ids_is_taken_with_one_warning(log, caplog):
    """Spark's own source and earlier versions of ours write no ids."""
    reader = reader_of(log)
    start = {"orders": {"0": 40, "1": 100}}
    end = latest(reader, start)
    assert end == at(100, 100, topic=OLD)
    assert rows(reader, start, end) == [(0, o) for o in range(40, 100)]
    latest(reader, start)
    assert caplog.messages == [
        "the checkpoint has no topic id of orders: a topic that was deleted and created again since then is not noticed"
    ]
    caplog.clear()
    latest(reader, end)
    assert not caplog.messages


def test_id_survives_a_directory_that_lost_it(log):
    for number in range(2):
        (log.node / f"orders-{number}" / FILE_NAME).unlink()
    start = at(100, 100, topic=OLD)
    assert latest(reader_of(log), start) == start


def test_cut_log_is_read_from_its_end(log, caplog):
    start = at(500, 100, topic=OLD)
    with pytest.raises(DataUnreadable, match="orders-0 ends at offset 100, and was read up to 500"):
        latest(reader_of(log), start)
    lenient = reader_of(log, failOnDataLoss="false")
    end = latest(lenient, start)
    assert end == at(100, 100, topic=OLD)
    assert "it is read on from offset 100" in caplog.text
    assert rows(lenient, start, end) == []
    log.append(0, 7)
    assert rows(lenient, end, latest(lenient, end)) == [(0, o) for o in range(100, 107)]


def test_partitions_of_two_topics_are_not_mixed(log, caplog):
    """A node that was down while its topic was deleted still has the old directory."""
    (log.node / "orders-1" / FILE_NAME).write_bytes(format_partition_metadata(SECOND))
    with pytest.raises(
        DataUnreadable, match=r"orders-1: its topic has the id .* while a node was down"
    ):
        reader_of(log).initialOffset()
    assert reader_of(log, failOnDataLoss="false").initialOffset() == at(100, topic=OLD)
    assert "while a node was down" in caplog.text


def test_copy_of_an_older_topic_is_refused(log, tmp_path, caplog):
    """The old directories have the later epoch and more records; the new topic has one partition."""
    for partition in (0, 1):
        log.append(partition, 5)
    for node_id in (2, 3):
        node = make_node(tmp_path / "data", node_id)
        directory = write_partition(node, "orders", 0, BATCHES[:3])
        (directory / FILE_NAME).write_bytes(format_partition_metadata(SECOND))
        checkpoint(node, {("orders", 0): 30})
    given = {"path": str(tmp_path / "data")}
    for level in ("records", "batches", "segments"):
        with pytest.raises(DataUnreadable, match=r"node-1/orders-0: its topic has .* of the paths"):
            plan_log(LogOptions.parse({**given, "level": level}))
    parsed = LogOptions.parse({**given, "failOnDataLoss": "false"})
    tasks = plan_log(parsed).tasks
    assert [(p.key, p.node_id in (2, 3), p.end_offset) for t in tasks for p in t] == [
        (("orders", 0), True, 30)
    ]
    assert caplog.text.count("while a node was down") == 2  # one for each old directory


def test_offsets_with_ids_are_those_of_sparks_source():
    """Spark's source reads a map from topics to maps from partitions to offsets."""
    offsets = {("b.c", 1): 7, ("b.c", 0): 3, ("a", 0): 1}
    known = StreamOffsets(offsets, {"b.c": "X_-", "a": "Y", "elsewhere": "Z"})
    text = json.dumps(known.written())
    assert text == '{"a": {"0": 1}, "b.c": {"0": 3, "1": 7}, "a@Y": {}, "b.c@X_-": {}}'
    assert StreamOffsets.parse(json.loads(text)) == (offsets, {"b.c": "X_-", "a": "Y"})


class TestInSpark:
    pytestmark = in_spark

    def test_recreated_topic_ends_query_or_is_read(self, spark, log, tmp_path):
        run(spark, log, tmp_path, startingOffsets="earliest")
        create(log, SECOND, 1, BATCHES)
        with pytest.raises(StreamingQueryException, match="orders was deleted and created again"):
            run(spark, log, tmp_path)
        progress = run(spark, log, tmp_path, failOnDataLoss="false")
        assert sum(one["numInputRows"] for one in progress) == END
        old = [(p, o) for p in range(2) for o in range(100)]
        assert written(spark, tmp_path) == sorted([*old, *((0, o) for o in range(END))])
