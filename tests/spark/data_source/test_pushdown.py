"""Conditions of a query that reduce reading: they never change rows, whether Spark pushes them down or not."""

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThan,
    In,
    LessThanOrEqual,
    StringContains,
)

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from trimaran.spark.data_source.offset_filter import EVERYTHING
from trimaran.spark.data_source.pushdown import pushed
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import LogReader, read_request_of

BATCHES = data_batches(40)
END = next_offset(BATCHES)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = make_node(tmp_path_factory.mktemp("pushdown"), 1)
    for number in range(3):
        write_partition(made, "t", number, BATCHES)
    write_partition(made, "u", 0, BATCHES)
    checkpoint(made, {("t", 0): END, ("t", 1): END, ("t", 2): END, ("u", 0): END})
    return made


def read(node, *filters):
    options = LogOptions.parse({"path": str(node), "splitBytes": "1000"})
    narrowed = pushed(filters)
    tasks = plan_log(options, narrowed)
    wanted = read_request_of(options, ("topic", "partition", "offset"), narrowed)
    rows = [
        tuple(r.values()) for t in tasks for b in read_records(t, wanted) for r in b.to_pylist()
    ]
    return len(tasks), rows


def test_partitions_and_offsets_are_not_even_opened(node):
    tasks, rows = read(node)
    assert len(rows) == 4 * END
    few, rows = read(
        node, EqualTo(("topic",), "t"), In(("partition",), (0, 2)), LessThanOrEqual(("offset",), 15)
    )
    assert few < tasks / 5
    assert rows == [("t", p, o) for p in (0, 2) for o in range(16)]
    assert read(node, EqualTo(("topic",), "absent")) == (0, [])


def test_batches_that_are_too_old_are_left_out(node):
    """Batch i has the times of second i; rows that Spark drops afterwards may be returned."""
    since = datetime.fromtimestamp(35, UTC)
    _, rows = read(node, EqualTo(("topic",), "u"), GreaterThan(("timestamp",), since))
    assert [offset for *_, offset in rows] == list(range(350, END))


def test_unknown_conditions_are_left_to_spark():
    assert pushed([StringContains(("topic",), "x"), EqualTo(("value", "x"), 5)]) == EVERYTHING


def test_reader_is_accepted_without_push_down():
    """PySpark refuses readers that override `pushFilters`."""
    reader = LogReader(LogOptions.parse({"path": "/x"}), ("offset",))
    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters
    given = [EqualTo(("offset",), 5)]
    assert reader.pushFilters(given) == given
    assert (reader._filters.start, reader._filters.end) == (5, 6)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_rows_are_the_same_with_and_without(spark, node, enabled):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
    try:
        frame = spark.read.format("kafka_log").load(str(node))
        found = frame.where(
            "topic = 't' AND partition IN (1, 2) AND offset >= 390 AND offset < 395"
        )
        counted = found.select("partition", "offset").collect()
        late = frame.where("topic = 'u' AND timestamp >= timestamp_millis(39005)").count()
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert sorted((r.partition, r.offset) for r in counted) == [
        (p, o) for p in (1, 2) for o in range(390, 395)
    ]
    assert late == 5
