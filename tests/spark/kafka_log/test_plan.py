"""Plans of the driver: the requested partitions, the range of each, and their division into tasks."""

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from tests.spark.directories import checkpoint, data_batches, make_node, write_partition
from trimaran.spark.data_source.conditions import METADATA, NO_CONDITIONS, Conditions
from trimaran.spark.data_source.limits import Limit
from trimaran.spark.kafka_log import plan as module
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import open_origin, plan_log, plan_segments, wanted_partitions
from trimaran.spark.kafka_log.source import KafkaLogSource, LogReader, read_request_of
from trimaran.spark.options import LATEST, TopicsWanted
from trimaran.spark.origins.directories.directory_origin import DirectoryOrigin
from trimaran.spark.origins.origin import Bounds, DataUnreadable, Part, Reading
from trimaran.spark.origins.packing import SHARE_BYTES_MIN
from trimaran.spark.origins.running_cluster.brokers import BrokerOrigin
from trimaran.wire.identity import TopicPartition


class Origin:
    """An origin with partitions and their bounds, which records the calls."""

    def __init__(self, **topics):
        self.found = {
            TopicPartition(topic, number): Bounds(*span)
            for topic, spans in topics.items()
            for number, span in enumerate(spans)
        }
        self.asked = []

    def partitions(self):
        return list(self.found)

    def bounds(self, wanted):
        self.asked.append(list(wanted))
        return {key: self.found[key] for key in wanted}

    def offsets_at(self, timestamps):
        return dict.fromkeys(timestamps)

    def tasks(self, parts, split_bytes, tasks_min):
        return (parts, split_bytes, tasks_min)

    def summary(self, tasks):
        return f"{len(tasks[0])} partitions"


WANTED = [
    (TopicsWanted(), [("a", 0), ("a", 1), ("b", 0)]),
    (TopicsWanted(("b",)), [("b", 0)]),
    (TopicsWanted(("b", "a")), [("a", 0), ("a", 1), ("b", 0)]),
    (TopicsWanted(("__c",)), [("__c", 0)]),
    (TopicsWanted(pattern="a|__.*"), [("a", 0), ("a", 1), ("__c", 0)]),
    (TopicsWanted(pattern="none"), []),
    (TopicsWanted(assigned=frozenset({("a", 1), ("__c", 0)})), [("a", 1), ("__c", 0)]),
]
SPAN = (0, 1)


@pytest.mark.parametrize(("topics", "expected"), WANTED)
def test_partitions_are_the_requested_ones(topics, expected):
    origin = Origin(a=[SPAN, SPAN], b=[SPAN], __c=[SPAN])
    assert wanted_partitions(origin, topics) == expected


ABSENT = [
    (TopicsWanted(("x",)), "there is no x; topics found: __c a b"),
    (TopicsWanted(("a", "y", "x")), "there is no y, x; topics found: __c a b"),
    (
        TopicsWanted(assigned=frozenset({("a", 2), ("a", 10), ("a", 1), ("b", 1)})),
        "there is no a-2, a-10, b-1; topics found: __c a b",
    ),
    (
        TopicsWanted(tuple("stuvwx")),
        "there is no s, t, u, v, w; topics found: __c a b",
    ),
]


@pytest.mark.parametrize(("topics", "told"), ABSENT)
def test_missing_named_topic_is_reported(topics, told):
    origin = Origin(a=[SPAN, SPAN], b=[SPAN], __c=[SPAN])
    with pytest.raises(DataUnreadable) as raised:
        wanted_partitions(origin, topics)
    assert str(raised.value) == told


def test_found_topics_are_listed_in_300_letters():
    many = {f"topic-{number:02}": [SPAN] for number in range(60)}
    told = []
    for origin in (Origin(), Origin(**many)):
        with pytest.raises(DataUnreadable) as raised:
            wanted_partitions(origin, TopicsWanted(("x",)))
        told.append(str(raised.value).removeprefix("there is no x; topics found: "))
    names = " ".join(sorted(many))
    assert told == ["none", f"{names[: 32 * 9 - 1]} [...]"]


def options_of(**given):
    return LogOptions.parse({"path": "/p", **given})


def test_plan_has_only_nonempty_spans(monkeypatch):
    origin = Origin(a=[(3, 10), (5, 5), (0, 1)], b=[(0, 9)])
    monkeypatch.setattr(module, "open_origin", lambda options, conditions: origin)
    spans = {("a", 0): [Part(3, 10)], ("a", 2): [Part(0, 1)], ("b", 0): [Part(0, 9)]}
    assert plan_log(options_of()) == ((spans, None, 1), "3 partitions")
    given = options_of(subscribe="a", splitBytes="77", minPartitions="5")
    trees = '[["LessThan", "partition", 2], ["In", "offset", [4, 8]]]'
    conditions = Conditions.parse(trees, "records")
    assert plan_log(given, conditions).tasks == ({("a", 0): [Part(4, 9)]}, 77, 5)
    assert origin.asked == [list(origin.found), [("a", 0), ("a", 1)]]


def test_each_end_is_resolved_by_own_option(monkeypatch):
    origin = Origin(a=[(3, 10)])
    monkeypatch.setattr(module, "open_origin", lambda options, conditions: origin)
    given = options_of(startingOffsets='{"a":{"0":4}}', endingOffsets='{"a":{"0":8}}')
    assert plan_log(given).tasks[0] == {("a", 0): [Part(4, 8)]}
    assert given.ending == Limit("endingOffsets", offsets={("a", 0): 8})
    late = options_of(startingTimestamp="5", startingOffsetsByTimestampStrategy="latest")
    assert plan_log(late).tasks[0] == {}
    assert late.ending == Limit("endingOffsets", LATEST)
    lost = options_of(startingOffsets='{"a":{"0":1}}', failOnDataLoss="false")
    assert plan_log(lost).tasks[0] == {("a", 0): [Part(3, 10)]}


ONLY_T = '[["EqualTo", "topic", "t"]]'


@pytest.fixture
def node(tmp_path):
    made = make_node(tmp_path, 7)
    for topic in ("t", "u"):
        write_partition(made, topic, 0, data_batches(6))
    checkpoint(made, {("t", 0): 60, ("u", 0): 60})
    return made


def test_only_wanted_directories_are_opened(node):
    def copies(conditions=NO_CONDITIONS, **given):
        origin = open_origin(LogOptions.parse({"path": str(node), **given}), conditions)
        assert isinstance(origin, DirectoryOrigin)
        assert origin.partitions() == [("t", 0), ("u", 0)]
        return [key for key in origin.partitions() if origin._replicas.get(key)]

    assert copies() == [("t", 0), ("u", 0)]
    assert copies(subscribe="u") == [("u", 0)]
    only_t = Conditions.parse(ONLY_T, "records")
    assert copies(only_t) == [("t", 0)]
    assert copies(only_t, subscribe="u") == []


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_brokers_get_the_chosen_isolation_level(isolation):
    given = {"kafka.bootstrap.servers": "h:1", "kafka.isolation.level": isolation}
    origin = open_origin(LogOptions.parse(given))
    assert isinstance(origin, BrokerOrigin)
    assert origin._isolation == (1 if isolation == "read_committed" else 0)


def test_segments_are_divided_by_smallest_task_share(node, monkeypatch):
    shares = []

    def taken(replicas, share):
        shares.append((len(list(replicas)), share))
        return []

    monkeypatch.setattr(module, "segment_tasks", taken)
    plan_segments(LogOptions.parse({"path": str(node), "level": "segments"}))
    plan_segments(LogOptions.parse({"path": str(node), "level": "segments", "subscribe": "t"}))
    assert shares == [(2, SHARE_BYTES_MIN), (1, SHARE_BYTES_MIN)]


READING = [
    ({}, Reading()),
    ({"includeControl": "true"}, Reading(include_control=True)),
    ({"verifyCrc": "false"}, Reading(verify_crc=False)),
    ({"kafka.isolation.level": "read_committed"}, Reading(committed=True)),
    ({"failOnDataLoss": "false"}, Reading(fail_on_data_loss=False)),
    ({"maxBatchBytes": "99"}, Reading(batch_bytes_max=99)),
]


@pytest.mark.parametrize(("given_", "reading"), READING)
def test_executors_receive_reading_options(given_, reading):
    wanted = read_request_of(options_of(**given_), ("offset",))
    assert (wanted.columns, wanted.reading) == (("offset",), reading)


@pytest.mark.parametrize("level", ["records", "batches", "segments"])
def test_level_is_planned_and_read_in_own_ranges(node, level):
    """Each Spark partition is a task of segments, or of offset ranges."""
    given = LogOptions.parse({"path": str(node), "level": level, "subscribe": "t"})
    reader = LogReader(given, ("topic",))
    (partition,) = reader.partitions()
    planned = plan_segments(given).tasks if level == "segments" else plan_log(given).tasks
    assert [partition.value] == list(planned)
    rows = sum(batch.num_rows for batch in reader.read(partition))
    segments = len(list((node / "t-0").glob("*.log")))
    assert rows == {"records": 60, "batches": 6, "segments": segments}[level]
    none = Conditions.parse('[["Not", ' + ONLY_T[1:-1] + ", null]]", level)
    assert [p.value for p in LogReader(given, ("topic",), none).partitions()] == [()]


def test_schema_carries_the_conditions_of_a_scan(node):
    given = {"path": str(node), "splitBytes": "500"}
    schema = StructType([StructField("topic", StringType(), metadata={METADATA: ONLY_T})])
    partitions = KafkaLogSource(given).reader(schema).partitions()
    assert {piece.key.topic for planned in partitions for piece in planned.value} == {"t"}
    assert (
        partitions[0].summary == "<kafka_log reads topics 1 of 2, segments 1 of 1, 0.0 of 0.0 MiB>"
    )
    assert {planned.summary for planned in partitions[1:]} == {""}
