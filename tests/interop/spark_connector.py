"""Compares Spark's own Kafka connector and our source: the number of rows that each has and the other lacks. It is a
program, because the connector's jars must be on the class path when the JVM starts:

    python -m tests.interop.spark_connector BOOTSTRAP TOPIC [DIRECTORY] < cases.json

It reads a JSON list of cases, each with the options of both sources and further options of ours, and prints a JSON
object per line: the numbers of rows, or the errors of the sources that refuse the options.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader

from tests.interop import maven

# The newest in Maven Central; there is none for our version of PySpark, 4.3.
VERSION = "4.2.0"


def jars() -> list[str]:
    """Returns the jars of the connector and of the dependencies that Spark lacks."""
    artifact = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"
    brought = ("org.apache.hadoop", "org.scala-lang", "org.slf4j")
    folder = maven.libraries(f"spark-connector-{VERSION}", (artifact,), brought)
    return sorted(map(str, folder.glob("*.jar")))


def cached(reader: DataFrameReader) -> tuple[DataFrame, str | None]:
    """Returns the rows, and the error if the source refuses to read them."""
    frame = None
    try:
        frame = reader.load().cache()
        frame.count()
    except (
        PySparkException,
        Py4JJavaError,
    ) as error:  # Py4JJavaError: a task of the connector failed
        return frame, str(error)
    return frame, None


def main(bootstrap: str, topic: str, directory: Path | None) -> None:
    from trimaran.spark.sessions.session import session

    spark = session(app_name="connector", conf={"spark.jars": ",".join(jars())})
    for case in json.load(sys.stdin):
        options = {"subscribe": topic, **case["options"]}
        if {"assign", "subscribePattern"} & options.keys():
            del options["subscribe"]
        theirs = spark.read.format("kafka").options(
            **{"kafka.bootstrap.servers": bootstrap, **options}
        )
        theirs_frame, theirs_error = cached(theirs)
        origins = {"live": {"kafka.bootstrap.servers": bootstrap}}
        if directory is not None:
            origins["directory"] = {"path": str(directory), "end": "log_end"}
        for origin, place in origins.items():
            source = spark.read.format("kafka_log").options(**{**options, **place})
            ours, error = cached(source)
            told = {"case": case["name"], "origin": origin, "theirs": theirs_error, "ours": error}
            if error is not None or theirs_error is not None:
                print(json.dumps(told), flush=True)
                continue
            told |= {
                "rows": theirs_frame.count(),
                "columns": ours.schema.simpleString() == theirs_frame.schema.simpleString(),
                "only_theirs": theirs_frame.exceptAll(ours).count(),
                "only_ours": ours.exceptAll(theirs_frame).count(),
            }
            print(json.dumps(told), flush=True)
            ours.unpersist()
        if theirs_error is None:
            theirs_frame.unpersist()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None)
