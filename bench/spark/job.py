"""A process with one Spark session that runs queries: JSON on stdin, and one JSON object per line on stdout for each
round.

CPU seconds are those of the process, its JVM and its Python workers.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from typing import Any

from bench.accounting import below, cpu_seconds_with_children, peak_rss_mib


def frame_of(spark: Any, query: dict[str, Any]) -> Any:
    reader = spark.read.format(query["format"]).options(**query["options"])
    if "schema" in query:
        reader = reader.schema(query["schema"])
    frame = reader.load(query["path"]) if "path" in query else reader.load()
    return frame.where(query["where"]) if "where" in query else frame


def write(spark: Any, query: dict[str, Any]) -> None:
    """Writes records with a key of ten digits, in all of the given size, from as many tasks as there are cores."""
    digits, rest = "lpad(CAST(id AS STRING), 10, '0')", query["size"] - 10
    frame = spark.range(query["count"]).selectExpr(
        f"{digits} AS key", f"rpad({digits}, {rest}, 'x') AS value"
    )
    frame.write.format(query["format"]).mode("append").options(**query["options"]).save()


def run(spark: Any, query: dict[str, Any]) -> int | None:
    """Returns the count of the query."""
    if query["into"] == "topic":
        write(spark, query)
        return None
    frame = frame_of(spark, query)
    if query["into"] == "count":
        return int(frame.count())
    if query["into"] == "sum":
        return int(frame.selectExpr(f"sum({query['column']})").first()[0])
    if query["into"] == "noop":
        frame.write.format("noop").mode("overwrite").save()
    else:
        shutil.rmtree(query["into"], ignore_errors=True)
        frame.write.parquet(query["into"])
    return None


def report(query: dict[str, Any], began: float, cpu: float, counted: int | None) -> None:
    line = {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": cpu_seconds_with_children() - cpu,
        "counted": counted,
        "worker_mib": max(
            (peak_rss_mib(pid) for pid, name in below() if name != "java"), default=0
        ),
        "name": query["name"],
    }
    print(json.dumps(line), flush=True)


def plan(query: dict[str, Any]) -> None:
    """Plans a read without Spark, by the code that Spark's planning process runs."""
    from trimaran.spark.kafka_log.source import KafkaLogSource

    source = KafkaLogSource({**query["options"], "path": query["path"]})
    began, cpu = time.perf_counter(), time.process_time()
    tasks = source.reader(source.schema()).partitions()
    line = {
        "name": query["name"],
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "counted": len(tasks),
        "worker_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    given = json.load(sys.stdin)
    if given.get("planned"):
        plan(given["planned"])
        return
    began = time.perf_counter()
    import trimaran.spark as kafka_spark

    session = kafka_spark.session(given.get("cores", 2), app_name="bench", conf=given.get("conf"))
    for query in given["queries"]:
        for _ in range(query["rounds"]):
            if query["rounds"] > 1 or query["name"] != "first":
                began, cpu = time.perf_counter(), cpu_seconds_with_children()
            else:
                cpu = 0.0  # since the start of the process
            report(query, began, cpu, run(session, query))
    session.stop()


if __name__ == "__main__":
    main()
