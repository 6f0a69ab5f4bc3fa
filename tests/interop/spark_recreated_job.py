"""Streams of our source and of Spark's own over a topic that grows, and is deleted and created again between two runs.
It is a program, because the connector's jars must be on the class path when the JVM starts:

    python -m tests.interop.spark_recreated_job BOOTSTRAP FOLDER [DIRECTORY]

It prints a JSON object for each run: the source, its rows, the error, and the offsets in the checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from confluent_kafka.admin import NewTopic

from tests.cluster.processes import until
from tests.interop.spark_connector import jars
from tests.librdkafka import AdminClient, Producer
from trimaran.spark.data_source.tracebacks import cause_of

TOPIC = "recreated"
LENIENT = {"failOnDataLoss": "false"}


class Scenario:
    """A topic, and queries that continue from one checkpoint."""

    def __init__(self, spark, bootstrap, folder):
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

    def create(self, partitions):
        self._admin.create_topics([NewTopic(TOPIC, partitions, 2)])[TOPIC].result(60)
        until(self._is_known, "the topic is known")

    def delete(self):
        self._admin.delete_topics([TOPIC])[TOPIC].result(60)
        until(lambda: not self._is_known(), "the topic is gone")

    def _is_known(self):
        return TOPIC in self._admin.list_topics(timeout=20).topics

    def produce(self, count, tag):
        for number in range(count):
            self._producer.produce(TOPIC, f"{tag} {number}".encode(), partition=0)
        assert self._producer.flush(60) == 0

    def run(self, name, place, **options):
        """Reads what is there with one query, which continues where the last one ended."""
        source = self._spark.readStream.format(name).options(
            subscribe=TOPIC, startingOffsets="earliest", **place, **options
        )
        seen, error = [], None
        query = (
            source.load()
            .selectExpr("CAST(value AS STRING) AS value")
            .writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as failed:  # noqa: BLE001 - of whichever source
            error = cause_of(failed)
        newest = max(
            (self._folder / "checkpoint/offsets").glob("[0-9]*"), key=lambda f: int(f.name)
        )
        told = {
            "source": name,
            "values": sorted({row.value.split()[0] for row in seen}),
            "rows": len({row.value for row in seen}),
            "error": error,
            "offsets": json.loads(newest.read_text().splitlines()[-1]),
        }
        print(json.dumps(told), flush=True)


def main(bootstrap, folder, directory=None):
    from trimaran.spark.sessions.session import session

    spark = session(app_name="recreated", conf={"spark.jars": ",".join(jars())})
    live = {"kafka.bootstrap.servers": bootstrap}
    ours = {"path": directory, "end": "log_end"} if directory else live
    one = Scenario(spark, bootstrap, Path(folder))
    one.create(2)
    one.produce(200, "first")
    one.run("kafka_log", ours)
    one.produce(30, "second")
    one.run("kafka", live)  # Spark's source continues from our checkpoint
    one.produce(40, "third")
    one.run("kafka_log", ours)  # our source continues from Spark's checkpoint
    one.delete()
    one.create(1)
    one.produce(500, "new")
    one.run("kafka_log", ours)
    one.run("kafka_log", ours, **LENIENT)
    one.run("kafka_log", ours)
    one.delete()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
