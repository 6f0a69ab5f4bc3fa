"""A user's job without access to this checkout: `spark_job.py MASTER DIRECTORY`. An empty MASTER means that
`spark-submit` sets it. Prints a JSON object with its counts, and the places in which executors found our code.
"""

import json
import sys

import trimaran.spark as ts


def found_by_executors(context):
    """Returns (environment, our file) of every Python worker that ran a task."""

    def places(_):
        import trimaran.wire

        yield sys.prefix, trimaran.wire.__file__

    return sorted(set(context.parallelize(range(8), 8).mapPartitions(places).collect()))


def main(master, directory):
    if master:
        conf = {"spark.executor.memory": "512m", "spark.cores.max": "2"}
        session = ts.session(master=master, conf=conf)
    else:
        from pyspark.sql import SparkSession

        session = SparkSession.builder.getOrCreate()
        ts.register(session)
    log = session.read.format("kafka_log").option("splitBytes", "2000").load(directory)
    history = session.read.format("kafka_metadata").option("table", "partition_history")
    told = {
        "rows": log.count(),
        "tasks": log.rdd.getNumPartitions(),
        "distinct": log.select("partition", "offset").distinct().count(),
        "states": history.load(directory).count(),
        "executors": found_by_executors(session.sparkContext),
    }
    print(json.dumps(told))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
