"""Streams over directories in a real Spark session: every offset once, while partitions appear, vanish, or the query
restarts.
"""

import json
import shutil

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    records,
    write_partition,
)
from trimaran.log.batches.records import build_batch
from trimaran.spark.data_source.limits import StreamLimits
from trimaran.spark.data_source.streams import shared
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.source import LogStreamReader, read_request_of
from trimaran.spark.origins.origin import DataUnreadable

BATCHES = data_batches(30)
END = next_offset(BATCHES)


class Log:
    """A broker's directory that grows."""

    def __init__(self, root):
        self.node = make_node(root, 1)
        self.marks = {}
        self.starts = {}

    def put(self, partition, batches):
        """Adds a partition."""
        write_partition(self.node, "orders", partition, batches)
        self.mark(partition, next_offset(batches))

    def append(self, partition, count):
        directory = self.node / f"orders-{partition}"
        end = self.marks["orders", partition]
        with max(directory.glob("*.log")).open("ab") as file:
            file.write(build_batch(records(count), base_offset=end, leader_epoch=9))
        self.mark(partition, end + count)

    def mark(self, partition, offset):
        self.marks["orders", partition] = offset
        self.tell()

    def tell(self):
        checkpoint(self.node, self.marks, self.starts)


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "data")


def reader_of(log, **options):
    parsed = LogOptions.parse({"path": str(log.node), **options}, streaming=True)
    return LogStreamReader(parsed, read_request_of(parsed, ("partition", "offset")))


def rows(reader, start, end):
    return sorted(
        (row["partition"], row["offset"])
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for row in batch.to_pylist()
    )


# --- the reader on its own ---


def test_stream_begins_at_chosen_offsets(log):
    log.put(0, BATCHES)
    assert reader_of(log).initialOffset() == {"orders": {"0": END}}
    assert reader_of(log, startingOffsets="earliest").initialOffset() == {"orders": {"0": 0}}
    chosen = reader_of(log, startingOffsets='{"orders":{"0":17}}')
    assert chosen.initialOffset() == {"orders": {"0": 17}}
    timed = reader_of(log, startingTimestamp="7000")
    assert timed.initialOffset() == {"orders": {"0": 70}}


def test_limits_share_a_batch_among_partitions(log):
    log.put(0, BATCHES)
    log.put(1, BATCHES[:3])
    reader = reader_of(log, startingOffsets="earliest", maxOffsetsPerTrigger="33")
    assert reader.getDefaultReadLimit() == ReadMaxRows(33)
    offset, seen = reader.initialOffset(), []
    while (following := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        part = rows(reader, offset, following)
        assert 0 < len(part) <= 34
        seen += part
        offset = following
    assert sorted(seen) == [(0, o) for o in range(END)] + [(1, o) for o in range(30)]
    assert reader.reportLatestOffset() == {"orders": {"0": END, "1": 30}}
    assert reader.latestOffset({"orders": {"0": 0, "1": 0}}, ReadAllAvailable()) == offset


def test_minimum_waits_until_it_is_due(log):
    log.put(0, BATCHES[:2])
    reader = reader_of(log, minOffsetsPerTrigger="25", maxTriggerDelay="1h")
    assert reader.getDefaultReadLimit() == ReadMinRows(25)
    start = {"orders": {"0": 0}}
    assert reader.latestOffset(start, ReadMinRows(25)) == start
    reader._last_given -= 3601
    assert reader.latestOffset(start, ReadMinRows(25)) == {"orders": {"0": 20}}
    log.append(0, 5)
    assert reader.latestOffset(start, ReadMinRows(25)) == {"orders": {"0": 25}}


def test_available_now_ends_at_initial_end_of_data(log):
    log.put(0, BATCHES[:2])
    reader = reader_of(log, minOffsetsPerTrigger="1000")
    reader.prepareForTriggerAvailableNow()
    log.append(0, 5)
    log.put(1, BATCHES)
    found = reader.latestOffset({"orders": {"0": 0}}, ReadMinRows(1000))
    assert found == {"orders": {"0": 20, "1": 0}}


def test_stream_reports_options_without_effect_once(log, caplog):
    log.put(0, BATCHES[:2])
    options = {"kafka.max.poll.records": "5"}
    reader, reads_only = reader_of(log, **options), reader_of(log, **options)
    start = {"orders": {"0": 0}}
    end = reader.latestOffset(start, ReadAllAvailable())
    log.append(0, 5)
    assert reader.latestOffset(end, ReadAllAvailable()) != end
    assert len(rows(reads_only, start, end)) == 20
    (told,) = (message for message in caplog.messages if "no effect" in message)
    assert "kafka.max.poll.records" in told


def test_records_deleted_before_read_are_reported(log, caplog):
    log.put(0, BATCHES)
    log.starts["orders", 0] = 50
    log.tell()
    start = {"orders": {"0": 20}}
    with pytest.raises(DataUnreadable, match="offsets 20 to 49 were deleted before they were read"):
        reader_of(log).latestOffset(start, ReadAllAvailable())
    lenient = reader_of(log, failOnDataLoss="false")
    assert lenient.latestOffset(start, ReadAllAvailable()) == {"orders": {"0": END}}
    assert "offsets 20 to 49 were deleted" in caplog.text


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ({"orders": {"0": END + 1}}, "was cut, or deleted and created again"),
        ({"orders": {"0": 0, "7": 5}}, "orders-7 is gone"),
    ],
)
def test_vanished_partition_is_reported(log, start, told):
    log.put(0, BATCHES)
    with pytest.raises(DataUnreadable, match=told):
        reader_of(log).latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize(
    ("change", "told", "left"),
    [
        ("retention", "orders-0: offsets 20 to 49 were deleted before they were read", (50, 250)),
        ("cut", "orders-0 ends at offset 200, offsets up to 249 were to be read", (20, 200)),
        ("deletion", "orders-0 is gone, offsets 20 to 249 were not read", (0, 0)),
    ],
)
def test_earlier_runs_batch_is_whole_or_reported(log, caplog, change, told, left):
    """Spark repeats the micro-batch that its last run has planned, without requesting the latest offsets."""
    log.put(0, BATCHES)
    log.put(1, BATCHES[:1])
    if change == "retention":
        log.starts["orders", 0] = 50
        log.tell()
    else:
        shutil.rmtree(log.node / "orders-0")
    if change == "cut":
        log.put(0, BATCHES[:20])
    start, end = {"orders": {"0": 20, "1": 0}}, {"orders": {"0": 250, "1": 10}}
    with pytest.raises(DataUnreadable, match=told):
        reader_of(log).partitions(start, end)
    lenient = reader_of(log, failOnDataLoss="false")
    assert rows(lenient, start, end) == [(0, o) for o in range(*left)] + [(1, o) for o in range(10)]
    assert told in caplog.text


def test_deletion_in_new_partition_before_repeat_is_reported(log):
    log.put(0, BATCHES)
    log.put(1, BATCHES)
    log.starts["orders", 1] = 50
    log.tell()
    start, end = {"orders": {"0": END}}, {"orders": {"0": END, "1": 100}}
    with pytest.raises(DataUnreadable, match="orders-1: offsets 0 to 49 were deleted"):
        reader_of(log).partitions(start, end)


def test_new_partition_without_its_beginning_is_reported(log, caplog):
    log.put(0, BATCHES[:2])
    log.put(1, BATCHES)
    log.starts["orders", 1] = 50
    log.tell()
    start, told = {"orders": {"0": 20}}, "orders-1 is new and begins at offset 50, not 0"
    with pytest.raises(DataUnreadable, match=told):
        reader_of(log).latestOffset(start, ReadAllAvailable())
    lenient = reader_of(log, failOnDataLoss="false")
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert end == {"orders": {"0": 20, "1": END}}
    assert told in caplog.text
    assert rows(lenient, start, end) == [(1, offset) for offset in range(50, END)]


def test_leader_with_older_watermark_is_no_loss(log, tmp_path):
    """Nodes write their watermarks every few seconds; the log holds records that the old leader had committed."""
    log.put(0, BATCHES)
    leader = make_node(tmp_path / "data", 2)
    later = build_batch(records(5), base_offset=END, leader_epoch=9)
    write_partition(leader, "orders", 0, [*BATCHES, later])
    checkpoint(leader, {("orders", 0): 200})
    reader = reader_of(log, path=str(tmp_path / "data"))
    start = {"orders": {"0": END - 20}}
    read = {"orders": {"0": END}}
    assert reader.latestOffset(read, ReadAllAvailable()) == read
    assert rows(reader, start, read) == [(0, o) for o in range(END - 20, END)]


def test_shares_are_proportional_to_waiting_records():
    begun = {("a", 0): 0, ("a", 1): 100, ("b", 0): 7}
    ends = {("a", 0): 900, ("a", 1): 200, ("b", 0): 7}
    assert shared(begun, ends, 100) == {("a", 0): 90, ("a", 1): 110}
    assert shared({("a", 0): 0, ("a", 1): 0}, {("a", 0): 1, ("a", 1): 10**9}, 5)["a", 0] == 1


def test_limits_come_from_the_options(log):
    log.put(0, BATCHES)
    parsed = LogOptions.parse({"path": "/x", "maxTriggerDelay": "90s"}, streaming=True)
    assert parsed.stream == StreamLimits(None, None, 90.0)


# --- in Spark ---

in_spark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # warnings of PySpark and py4j themselves
]


def run(spark, log, place, **options):
    """Runs once with `Trigger.AvailableNow`; returns the progress of its micro-batches."""
    source = spark.readStream.format("kafka_log").options(**options).load(str(log.node))
    query = (
        source.selectExpr("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(p.json) for p in query.recentProgress if p.numInputRows]


def written(spark, place):
    found = spark.read.parquet(str(place / "out")).select("partition", "offset").collect()
    return sorted((r.partition, r.offset) for r in found)


class TestInSpark:
    pytestmark = in_spark

    def test_stream_resumes_at_its_end(self, spark, log, tmp_path):
        log.put(0, BATCHES)
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "170"}
        progress = run(spark, log, tmp_path, **options)
        assert [p["numInputRows"] for p in progress] == [170, 130]
        log.append(0, 5)
        log.put(1, BATCHES[:2])  # a new partition is read from its beginning
        progress = run(spark, log, tmp_path, **options)
        assert sum(p["numInputRows"] for p in progress) == 25
        assert written(spark, tmp_path) == [(0, o) for o in range(END + 5)] + [
            (1, o) for o in range(20)
        ]
        newest = max(
            (tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda p: int(p.name)
        )
        assert json.loads(newest.read_text().splitlines()[-1]) == {
            "orders": {"0": END + 5, "1": 20}
        }

    def test_lost_data_ends_query_with_our_message(self, spark, log, tmp_path):
        log.put(0, BATCHES)
        run(spark, log, tmp_path, startingOffsets="earliest")
        log.append(0, 100)
        log.starts["orders", 0] = END + 50
        log.tell()
        with pytest.raises(
            StreamingQueryException, match=f"offsets {END} to {END + 49} were deleted"
        ):
            run(spark, log, tmp_path)

    def test_wrong_option_raises_our_own_error(self, spark, log, tmp_path):
        """PySpark raises UnboundLocalError if a reader cannot be created."""
        log.put(0, BATCHES)
        with pytest.raises(Exception, match="a stream has no end") as error:
            run(spark, log, tmp_path, endingOffsets="latest")
        assert "UnboundLocalError" not in str(error.value)
