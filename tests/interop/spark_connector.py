"""Spark's own Kafka connector beside our source, in a Spark of its own: how many rows either has that the other lacks.

A program, as the connector's jars must be on the class path when the JVM starts:

    python -m tests.interop.spark_connector BOOTSTRAP TOPIC [DIRECTORY] < cases.json

It reads a JSON list of cases, each the options of both and what else ours is told, and prints a JSON object a line.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.interop.apache_kafka import CACHE, POM

# The newest in Maven Central; there is none of the PySpark that we use, 4.3.
VERSION = "4.2.0"


def jars() -> list[str]:
    """The connector and what it needs, from Maven Central; fetched once."""
    folder = CACHE / f"spark-connector-{VERSION}"
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        exclusions = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>"
            for group in ("org.apache.hadoop", "org.scala-lang", "org.slf4j")
        )
        dependency = (
            "<dependency><groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>"
            f"<version>{VERSION}</version><exclusions>{exclusions}</exclusions></dependency>"
        )
        (folder / "pom.xml").write_text(POM.format(dependencies=dependency))
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={folder}/libs",
        ]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (folder / "complete").touch()
    return sorted(map(str, (folder / "libs").glob("*.jar")))


def main(bootstrap: str, topic: str, directory: Path | None) -> None:
    from spark.session import session

    spark = session(app_name="connector", conf={"spark.jars": ",".join(jars())})
    for case in json.load(sys.stdin):
        options = {"subscribe": topic, **case["options"]}
        if {"assign", "subscribePattern"} & options.keys():
            del options["subscribe"]
        theirs = spark.read.format("kafka").options(
            **{"kafka.bootstrap.servers": bootstrap, **options}
        )
        theirs_frame = theirs.load().cache()
        origins = {"live": {"kafka.bootstrap.servers": bootstrap}}
        if directory is not None:
            origins["directory"] = {"path": str(directory), "end": "log_end"}
        for origin, place in origins.items():
            ours = spark.read.format("kafka_log").options(**{**options, **place}).load().cache()
            told = {
                "case": case["name"],
                "origin": origin,
                "rows": theirs_frame.count(),
                "columns": ours.schema.simpleString() == theirs_frame.schema.simpleString(),
                "only_theirs": theirs_frame.exceptAll(ours).count(),
                "only_ours": ours.exceptAll(theirs_frame).count(),
            }
            print(json.dumps(told), flush=True)
            ours.unpersist()
        theirs_frame.unpersist()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]) if len(sys.argv) > 3 else None)
