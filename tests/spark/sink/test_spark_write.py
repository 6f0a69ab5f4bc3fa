"""Real Spark writes to real brokers: a batch query, a stream, and the errors that a user sees."""

import pytest
from pyspark.errors import PySparkException

from tests.cluster.processes import LocalCluster
from trimaran.spark.data_source.tracebacks import cause_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory):
    data = tmp_path_factory.mktemp("spark-sink")
    with LocalCluster(data, "--controllers", "1", "--brokers", "1") as cluster:
        yield cluster.bootstrap


def read(spark, bootstrap, topic, **more):
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
    return spark.read.format("kafka_log").options(**options, **more).load()


def test_written_rows_are_read_with_all_columns(spark, bootstrap):
    frame = spark.range(100).selectExpr(
        "CAST(id AS STRING) AS key",
        "IF(id = 7, NULL, CAST(id * 2 AS STRING)) AS value",
        "timestamp_millis(1700000000000 + id) AS timestamp",
        "CAST(id % 3 AS INT) AS partition",
        "IF(id % 2 = 0, array(struct('h' AS key, CAST(id AS STRING) AS value)), NULL) AS pairs",
    )
    typed = (
        "transform(pairs, p -> struct(p.key AS key, CAST(p.value AS BINARY) AS value)) AS headers"
    )
    frame = frame.selectExpr("key", "value", "timestamp", "partition", typed)
    options = {"kafka.bootstrap.servers": bootstrap, "createTopics.partitions": "3"}
    frame.write.format("kafka_log").mode("append").options(**options, topic="all").save()
    found = read(spark, bootstrap, "all").selectExpr(
        "CAST(key AS STRING)", "CAST(value AS STRING)", "timestamp", "partition", "headers"
    )
    assert found.exceptAll(frame).count() == frame.exceptAll(found).count() == 0
    assert found.count() == 100


def test_stream_writes_its_micro_batches(spark, bootstrap, tmp_path):
    options = {"kafka.bootstrap.servers": bootstrap, "checkpointLocation": str(tmp_path)}
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    writer = source.selectExpr("CAST(value AS STRING) AS value").writeStream.format("kafka_log")
    query = writer.options(**options, topic="stream").start()
    while (query.lastProgress or {"batchId": -1})["batchId"] < 1:
        assert not query.awaitTermination(0.1)
    query.stop()
    found = {int(row.value) for row in read(spark, bootstrap, "stream").collect()}
    assert found >= set(range(20))


def test_repeated_batch_of_a_stream_is_written_once(spark, bootstrap, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    sink = {
        "kafka.bootstrap.servers": bootstrap,
        "topic": "once",
        "deliveryGuarantee": "exactly_once",
        "transactionalIdPrefix": "once-copy",
        "checkpointLocation": str(checkpoint),
    }

    def run():
        source = spark.readStream.text(str(tmp_path / "in"))
        writer = source.writeStream.format("kafka_log").options(**sink)
        writer.trigger(availableNow=True).start().awaitTermination()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1\n2\n")
    run()
    (tmp_path / "in" / "b").write_text("3\n")
    run()
    # The driver has died before Spark recorded the micro-batch.
    for file in ("1", ".1.crc"):
        (checkpoint / "commits" / file).unlink()
    run()
    assert (checkpoint / "commits" / "1").exists()
    found = read(spark, bootstrap, "once", **{"kafka.isolation.level": "read_committed"})
    assert sorted(int(row.value) for row in found.collect()) == [1, 2, 3]


def test_insert_names_the_brokers_itself(spark, bootstrap):
    options = f"`kafka.bootstrap.servers` = '{bootstrap}', `topic` = 'inserted'"
    spark.sql("CREATE TABLE orders (value STRING) USING kafka_log OPTIONS ('topic' 'other')")
    try:
        spark.sql(f"INSERT INTO orders WITH ({options}) VALUES ('a'), ('b')")
        assert read(spark, bootstrap, "inserted").count() == 2
        with pytest.raises(PySparkException) as found:
            spark.sql("INSERT INTO orders VALUES ('c')")
    finally:
        spark.sql("DROP TABLE orders")
    assert "tables of a catalog do not pass their options" in cause_of(found.value)


@pytest.mark.parametrize(
    ("select", "mode", "options", "message"),
    [
        (["'a' AS value"], "overwrite", {"topic": "t"}, "a topic cannot be overwritten"),
        (["'a' AS value"], "append", {}, "there is no column topic"),
        (["1 AS value"], "append", {"topic": "t"}, "column value is of type int"),
        (["'a' AS value"], "append", {"topic": "t", "kafka.ack": "1"}, "did you mean kafka.acks?"),
        (["'a' AS value", "IF(id = 0, NULL, 't') AS topic"], "append", {}, "has a null topic"),
    ],
)
def test_refused_write_has_its_reason(spark, bootstrap, select, mode, options, message):
    frame = spark.range(1).selectExpr(*select)
    writer = frame.write.format("kafka_log").mode(mode)
    with pytest.raises(PySparkException) as found:
        writer.options(**{"kafka.bootstrap.servers": bootstrap, **options}).save()
    assert message in cause_of(found.value)
