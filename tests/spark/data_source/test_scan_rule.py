"""The rule of a session: a scan reads what its own query needs, and rows are those of a read without it."""

import re
from collections import Counter
from functools import reduce

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as f

from tests.spark.directories import (
    checkpoint,
    data_batches,
    make_node,
    next_offset,
    write_partition,
)
from trimaran.spark.data_source import scan_rule
from trimaran.spark.kafka_log.source import KafkaLogSource

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

BATCHES = data_batches(20)
END = next_offset(BATCHES)
TOPICS = ("a", "ab", "b")


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = make_node(tmp_path_factory.mktemp("rule"), 1)
    marks = {}
    for topic in TOPICS:
        for number in range(2):
            write_partition(made, topic, number, BATCHES)
            marks[topic, number] = END
    checkpoint(made, marks)
    return made


@pytest.fixture(scope="module")
def log(spark, node):
    return spark.read.format("kafka_log").load(str(node))


CONDITIONS = [
    "topic = 'a'",
    "topic LIKE 'a%' AND partition = 1",
    "topic IN ('a', 'b') AND offset BETWEEN 5 AND 8",
    "(topic = 'a' AND offset > 190) OR (topic = 'b' AND offset < 10)",
    "NOT (topic = 'a' OR partition = 0)",
    "NOT (offset >= 10 AND topic <> 'ab')",
    "timestamp BETWEEN timestamp_millis(3000) AND timestamp_millis(4005)",
    "timestamp > '1970-01-01 00:00:18.003' OR offset = 7",
    "offset IN (1, 150, null)",
    "offset NOT IN (1, 150)",
    "OFFSET = 5L",
    "partition = offset",
    "topic = 'ab' AND length(value) > 3",
    "topic = 'ab' OR length(value) > 30",
    "offset % 50 = 0 AND topic <=> 'b'",
    "startswith(topic, 'ab') AND key IS NULL",
    "partition + 1 = 2 AND offset < 3",
    "topic = 'nowhere'",
    "true",
]


def test_each_query_of_union_has_own_rows(spark, node, log):
    """PySpark's own push-down would read for each of them only what the last one needs."""
    rows = log.select("topic", "partition", "offset", "timestamp", "key", "value").collect()
    assert len(rows) == 6 * END
    known = spark.createDataFrame(rows, log.select(*rows[0].__fields__).schema)

    def counted(frame):
        columns = ("topic", "partition", "offset")
        some = (
            frame.where(condition).select(f.lit(number).alias("query"), *columns)
            for number, condition in enumerate(CONDITIONS)
        )
        return sorted(map(tuple, reduce(lambda one, other: one.union(other), some).collect()))

    assert counted(log) == counted(known)
    one, other = log.where("topic = 'a'"), log.where("topic = 'b'")
    assert one.join(other, ["partition", "offset"]).count() == 2 * END
    assert log.count() == 6 * END


def plan_of(frame, mode="formatted"):
    modes = frame.sparkSession._jvm.org.apache.spark.sql.execution.ExplainMode
    return frame._jdf.queryExecution().explainString(modes.fromString(mode))


def test_plan_shows_columns_conditions_and_amount(log):
    some = log.where("topic LIKE 'a%' AND (partition = 1 OR offset < 3)").select("offset", "topic")
    told = plan_of(some)
    assert "ReadSchema: struct<topic:string,partition:int,offset:bigint>" in told
    pushed = "StringStartsWith(topic,a), Or(EqualTo(partition,1),LessThan(offset,3))"
    assert f"PushedFilters: [{pushed}]" in told
    amount = r"topics 2 of 3, segments \d+ of \d+, [\d.]+ of [\d.]+ MiB"
    assert re.search("Reads: " + amount, told)
    assert re.search(r"BatchScan kafka_log\[.*\] " + amount, plan_of(some, "simple"))
    assert "ReadSchema: struct<partition:int>" in plan_of(log.groupBy().count())


def test_rows_of_whole_scan_are_not_projected(log):
    """Spark puts a projection above every scan of rows, which copies each of them."""
    for frame in (log, log.select("key", "offset"), log.select("offset")):
        assert "Project" not in plan_of(frame, "simple")
    for frame in (log.select("offset", "key"), log.selectExpr("offset + 1 AS offset", "key")):
        assert "Project" in plan_of(frame, "simple")
    whole = log.select("key", "offset").where("offset >= 0")  # with a projection
    found, expected = (
        Counter(map(tuple, frame.collect())) for frame in (log.select("key", "offset"), whole)
    )
    assert found == expected


def test_options_of_a_table_outlive_the_pruning(spark, node):
    spark.sql(f"CREATE TABLE pruned USING kafka_log OPTIONS (path '{node}', subscribe 'ab')")
    try:
        [[count]] = spark.sql("SELECT count(*) FROM pruned WHERE partition = 1").collect()
    finally:
        spark.sql("DROP TABLE pruned")
    assert count == END


def test_rule_is_added_once(spark):
    methods = spark._jsparkSession.experimental()
    before = methods.extraOptimizations().size(), methods.extraStrategies().size()
    assert scan_rule.install(spark)
    assert before == (methods.extraOptimizations().size(), methods.extraStrategies().size())
    assert not scan_rule.install(object())


def test_error_of_a_plan_reaches_the_user(spark, tmp_path):
    frame = spark.read.format("kafka_log").load(str(tmp_path))
    plan_of(frame)
    with pytest.raises(Exception, match="no log directory"):
        frame.count()


def test_rows_are_the_same_without_the_rule(spark, node):
    plain = spark.newSession()
    plain.dataSource.register(KafkaLogSource)
    for enabled in ("true", "false"):
        plain.conf.set("spark.sql.python.filterPushdown.enabled", enabled)
        log = plain.read.format("kafka_log").load(str(node))
        assert log.where("topic = 'a'").count() == 2 * END
        assert log.count() == 6 * END
