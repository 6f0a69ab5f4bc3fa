"""Making the sources known to a Spark session, and views over a cluster's directory for SQL."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# view -> (format, options)
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    "metadata_records": ("kafka_metadata", {"table": "records"}),
    "partition_history": ("kafka_metadata", {"table": "partition_history"}),
    "quorum_epochs": ("kafka_metadata", {"table": "quorum_epochs"}),
    "records": ("kafka_log", {"level": "records", "includeHeaders": "true"}),
    "batches": ("kafka_log", {"level": "batches"}),
}


def register(spark: SparkSession) -> None:
    """Makes the formats `kafka_log` and `kafka_metadata` known to any session."""
    from spark.kafka_log.source import KafkaLogSource
    from spark.kafka_metadata.source import KafkaMetadataSource

    spark.dataSource.register(KafkaLogSource)
    spark.dataSource.register(KafkaMetadataSource)


def view(spark: SparkSession, name: str, path: str | PathLike[str]) -> DataFrame:
    """One of `VIEWS` as a temporary view over the node directories at `path`."""
    source, options = VIEWS[name]
    frame = spark.read.format(source).options(**options).load(str(path))
    frame.createOrReplaceTempView(name)
    return frame


def views(spark: SparkSession, path: str | PathLike[str]) -> list[str]:
    """All of `VIEWS` as temporary views; gives their names.

    ```
    import spark as kafka_spark
    spark = kafka_spark.session()
    kafka_spark.views(spark, ".trimaran")
    spark.sql("SELECT topic, count(*) FROM records GROUP BY topic").show()
    ```
    """
    register(spark)
    for name in VIEWS:
        view(spark, name, path)
    return list(VIEWS)
