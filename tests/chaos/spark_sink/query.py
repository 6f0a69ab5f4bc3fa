"""A query with exactly-once writes, which a run kills: `python -m tests.chaos.spark_sink.query BOOTSTRAP FOLDER TASKS`.

Its executors are processes. It prints a line of JSON when the query starts, for each micro-batch that Spark has
recorded as committed, and when the query ends with an error. Then the query starts again in the same session.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trimaran.spark as ts
from trimaran.spark.data_source.tracebacks import cause_of
from trimaran.spark.sessions import class_archive
from trimaran.spark.sessions.session import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

EXECUTORS = 2
ROWS = 40  # the rows of a micro-batch
PARTITIONS = 4
TOPIC = "written"
PREFIX = "campaign"
POLL_SECONDS = 0.1
ARCHIVED = "-XX:SharedArchiveFile="
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    # Executors and tasks are killed again and again.
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "20",
}


def sink_options(bootstrap: str) -> dict[str, str]:
    """Returns the options of the sink."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "topic": TOPIC,
        "createTopics.partitions": str(PARTITIONS),
        "createTopics.replication.factor": "3",
        "deliveryGuarantee": "exactly_once",
        "transactionalIdPrefix": PREFIX,
    }


def checkpoint_of(folder: str) -> str:
    """Returns the directory of the query's checkpoint."""
    return os.path.join(folder, "checkpoint")


def main(bootstrap: str, folder: str, tasks: str) -> None:
    # A JVM starts in half the time with the archive of classes, which an earlier session may have written.
    sharing = [word for word in class_archive.options({}) if ARCHIVED in word]
    options = " ".join([QUICK_JVM, *(class_archive.QUIET if sharing else ()), *sharing])
    conf = {f"spark.{part}.extraJavaOptions": options for part in ("driver", "executor")}
    spark = ts.session(
        app_name="campaign",
        master=f"local-cluster[{EXECUTORS},1,512]",
        conf={**CONF, **conf, "spark.pyspark.python": str(worker_python())},
    )
    while True:
        query = _started(spark, bootstrap, folder, tasks)
        _tell(started=True)
        try:
            _follow(query)
        except Exception as error:  # noqa: BLE001 - it is printed, and judged by the run
            _tell(error=cause_of(error))


def _started(spark: SparkSession, bootstrap: str, folder: str, tasks: str) -> StreamingQuery:
    options = {"rowsPerBatch": str(ROWS), "numPartitions": tasks}
    rows = spark.readStream.format("rate-micro-batch").options(**options).load()
    writer = rows.selectExpr("CAST(value AS STRING) AS key", "CAST(value AS STRING) AS value")
    return (
        writer.writeStream.format("kafka_log")
        .options(**sink_options(bootstrap), checkpointLocation=checkpoint_of(folder))
        .start()
    )


def _follow(query: StreamingQuery) -> None:
    seen = -1
    while not query.awaitTermination(POLL_SECONDS):
        progress: Mapping[str, Any] | None = query.lastProgress
        if progress is not None and progress["batchId"] > seen:
            seen = progress["batchId"]
            _tell(batch=seen)


def _tell(**event: object) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
