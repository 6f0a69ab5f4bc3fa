"""Tables of a catalog, temporary views and options without effect, in a Spark session."""

import pytest

from tests.spark.directories import checkpoint, data_batches, make_node, write_partition

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # written by PySpark and py4j themselves
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    root = tmp_path_factory.mktemp("two words")
    broker = make_node(root, 11)
    batches = data_batches(4)
    for number in (0, 1):
        write_partition(broker, "orders", number, batches)
    checkpoint(broker, {("orders", number): 40 for number in (0, 1)})
    return root


@pytest.fixture
def table(spark):
    yield "orders"
    spark.sql("DROP TABLE IF EXISTS orders")


@pytest.mark.parametrize("where", ["OPTIONS (path '{}')", "LOCATION '{}'"])
def test_table_of_a_catalog_is_read(spark, cluster, table, where):
    spark.sql(f"CREATE TABLE {table} USING kafka_log {where.format(cluster)} COMMENT 'c'")
    assert spark.table(table).count() == 80
    assert spark.sql(f"SELECT * FROM {table} WHERE partition = 1 AND offset > 35").count() == 4
    with_options = (
        f'SELECT * FROM {table} WITH (`startingOffsets` = \'{{"orders":{{"0":39,"1":40}}}}\')'
    )
    assert spark.sql(with_options).count() == 1
    spark.sql(f"DROP TABLE {table}")
    assert next(cluster.rglob("*.log")).exists()


def test_table_keeps_its_options(spark, cluster, table):
    spark.sql(
        f"CREATE TABLE {table} USING kafka_log OPTIONS (path '{cluster}', level 'batches', COLUMNS 'last_offset') "
        "TBLPROPERTIES ('owner.of.data' = 'team')"
    )
    assert spark.table(table).columns == ["last_offset"]
    assert spark.table(table).count() == 8
    other = (
        spark.read.format("kafka_log").option("level", "batches").schema(spark.table(table).schema)
    )
    assert other.option("subscribe", "orders").load(str(cluster)).count() == 8


def test_stream_reads_a_table(spark, cluster, table, tmp_path):
    spark.sql(
        f"CREATE TABLE {table} USING kafka_log OPTIONS (path '{cluster}', startingOffsets 'earliest')"
    )
    written = spark.readStream.table(table).writeStream.format("memory").queryName("copied")
    query = written.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.table("copied").count() == 80


def test_temporary_view_is_read(spark, cluster):
    spark.sql(f"CREATE TEMPORARY VIEW seen USING kafka_log OPTIONS (path '{cluster}')")
    assert spark.table("seen").count() == 80
    spark.sql("DROP VIEW seen")


def test_table_that_cannot_be_read_is_refused(spark, cluster, table):
    from pyspark.errors import PySparkException

    of = f"CREATE TABLE {table} USING kafka_log"
    with pytest.raises(PySparkException, match="unknown option pth; did you mean path"):
        spark.sql(f"{of} OPTIONS (path '{cluster}', pth '/x')")
    secret = "`kafka.bootstrap.servers` 'h:1', `kafka.ssl.key.password` 's3cret'"
    with pytest.raises(PySparkException, match="options are readable in the catalog") as error:
        spark.sql(f"{of} OPTIONS ({secret})")
    assert "s3cret" not in str(error.value)
    spark.sql(f"CREATE TABLE {table} (offset bigint) USING kafka_log OPTIONS (path '{cluster}')")
    with pytest.raises(PySparkException, match="create it without columns"):
        spark.table(table).count()
