"""A user's job without access to this checkout: `spark_job.py HOW DIRECTORY [NAME=VALUE …]`.

HOW is the master of a session of ours. With `register` or `found` the master comes from `spark-submit`, and the formats
are registered or found by name. Prints a JSON object with counts, and the places in which executors found our code.
"""

import json
import sys
import tempfile

import trimaran.spark as ts


def found_by_executors(context):
    """Returns (environment, our file) of every Python worker that ran a task."""

    def places(_):
        import trimaran.wire

        yield sys.prefix, trimaran.wire.__file__

    return sorted(set(context.parallelize(range(8), 8).mapPartitions(places).collect()))


def streamed(session, directory):
    """Returns the number of rows that a stream of all records writes."""
    source = session.readStream.format("kafka_log").option("startingOffsets", "earliest")
    with tempfile.TemporaryDirectory() as folder:
        written = source.load(directory).writeStream.format("parquet")
        query = written.option("checkpointLocation", f"{folder}/checkpoint").trigger(
            availableNow=True
        )
        query.start(f"{folder}/rows").awaitTermination()
        return session.read.parquet(f"{folder}/rows").count()


def main(how, directory, *settings):
    if "://" in how:
        conf = {"spark.executor.memory": "512m", "spark.cores.max": "2"}
        conf.update(setting.split("=", 1) for setting in settings)
        session = ts.session(master=how, conf=conf)
    else:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.getOrCreate()
        if how == "register":
            ts.register(session)
    log = session.read.format("kafka_log").option("splitBytes", "2000").load(directory)
    history = session.read.format("kafka_metadata").option("table", "partition_history")
    told = {
        "rows": log.count(),
        "tasks": log.rdd.getNumPartitions(),
        "distinct": log.select("partition", "offset").distinct().count(),
        "streamed": streamed(session, directory),
        "states": history.load(directory).count(),
        "executors": found_by_executors(session.sparkContext),
    }
    print(json.dumps(told))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
