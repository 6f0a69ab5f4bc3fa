"""Registers the sources with a Spark session, and creates views over the directory of a cluster for SQL."""

from __future__ import annotations

import os
from os import PathLike
from typing import TYPE_CHECKING

import trimaran
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from trimaran.spark.data_source import scan_rule
    from trimaran.spark.kafka_log import source as kafka_log
    from trimaran.spark.kafka_metadata import source as kafka_metadata
else:
    scan_rule = imported_later("trimaran.spark.data_source.scan_rule")
    kafka_log = imported_later("trimaran.spark.kafka_log.source")
    kafka_metadata = imported_later("trimaran.spark.kafka_metadata.source")

# Tables whose names would be ambiguous among those of the data logs.
PREFIXED = ("records", "batches", "control", "snapshots", "image")
METADATA_TABLES = (
    *PREFIXED,
    "partition_history",
    "isr_changes",
    "leader_changes",
    "broker_history",
    "config_history",
    "topic_history",
    "feature_history",
    "quorum_epochs",
    "voter_history",
    "acl_history",
)
# by view: format and options
VIEWS: dict[str, tuple[str, dict[str, str]]] = {
    **{
        f"metadata_{table}" if table in PREFIXED else table: ("kafka_metadata", {"table": table})
        for table in METADATA_TABLES
    },
    "records": ("kafka_log", {"level": "records", "includeHeaders": "true"}),
    "batches": ("kafka_log", {"level": "batches"}),
    "segments": ("kafka_log", {"level": "segments"}),
    "group_offsets": ("kafka_log", {"level": "group_offsets"}),
    "group_members": ("kafka_log", {"level": "group_members"}),
    "transactions": ("kafka_log", {"level": "transactions"}),
    # All replicas up to the last complete batch, and the copies of all controllers.
    "replica_batches": ("kafka_log", {"level": "batches", "replicas": "all", "end": "log_end"}),
    # The records of all replicas below the offsets up to which one of them may have been compacted.
    "compacted_records": (
        "kafka_log",
        {
            "level": "records",
            "replicas": "all",
            "end": "cleaner_offset",
            **dict.fromkeys(("includeHeaders", "includeControl", "includeBatchInfo"), "true"),
        },
    ),
    "metadata_batches_all": (
        "kafka_metadata",
        {"table": "batches", "nodes": "all", "includeUncommitted": "true"},
    ),
}


def register(spark: SparkSession) -> None:
    """Registers the formats `kafka_log` and `kafka_metadata` with a session, and the rule for reading less.

    Spark sends a file of `--py-files` to executors, but the process on the driver that plans a stream does not get it.
    So if this package is in such a file, the path of that process gets it, too.
    """
    if (archive := getattr(trimaran.__loader__, "archive", None)) is not None:
        environment = spark.sparkContext.environment
        paths = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys((archive, *filter(None, paths))))
    spark.dataSource.register(kafka_log.KafkaLogSource)
    spark.dataSource.register(kafka_metadata.KafkaMetadataSource)
    scan_rule.install(spark)


def view(spark: SparkSession, name: str, path: str | PathLike[str]) -> DataFrame:
    """Creates one of `VIEWS` as a temporary view over the node directories at `path`."""
    source, options = VIEWS[name]
    frame = spark.read.format(source).options(**options).load(str(path))
    frame.createOrReplaceTempView(name)
    return frame


def views(spark: SparkSession, path: str | PathLike[str]) -> list[str]:
    """Creates all of `VIEWS` as temporary views and returns their names.

    ```
    import trimaran.spark as kafka_spark
    spark = kafka_spark.session()
    kafka_spark.views(spark, ".trimaran")
    spark.sql("SELECT topic, count(*) FROM records GROUP BY topic").show()
    ```
    """
    register(spark)
    for name in VIEWS:
        view(spark, name, path)
    return list(VIEWS)
