"""`./dev bench spark [ROW …] [--scale S] [--markdown]`: our sources beside Spark's own Kafka connector, with marks.

Rows: `first`, `small`, `large`, `filter`, `metadata`, `planning`, `scan`, `read`, `write`. A scale of 1 is 4 M records
of 100 B and 1 M of 1 KiB to be read, half of them in each codec and to be written, 1 GB to be filtered, 10 GB to be
scanned, 1 M metadata records, 100,000 segments. `--scale 0.05` takes two minutes, and `read` another two; fixed costs
weigh more then. The connector reads the same topics from the same running broker, and writes to it, with the JVM's full
compiler, as ours do. A figure is the best of some rounds in a warm session, except for `first` and planning.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.clusters import (
    OURS_WRITE_BEHIND,
    SYSTEMS,
    Cluster,
    ours,
    settings_for,
    systems_of,
)
from bench.load import SHARE, create_topic, produce
from bench.sizes import sized
from bench.spark import data
from tests.interop import spark_connector
from trimaran.spark.sink.options import BATCH_BYTES

ROUNDS = sized(4, 1)
PARTITIONS = 4
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BATCH = 16_384  # Kafka's default of `batch.size`
SMALL, LARGE = 100, 1024
JAVA = "spark.driver.extraJavaOptions"
FULL_COMPILER = {JAVA: "-XX:+UseParallelGC", "spark.driver.memory": "2g"}
TABLES = ("records", "partition_history", "isr_changes")


class Figure(NamedTuple):
    """A query of one system: the `rows` that it read, the `mark` to reach, and whether it is `met`."""

    row: str
    name: str
    seconds: float
    cpu_seconds: float
    rows: int
    mib: float
    mark: str = ""
    met: bool | None = None

    @property
    def rate(self) -> float:
        """Returns rows per CPU second."""
        return self.rows / max(self.cpu_seconds, 1e-9)


def job(**given: Any) -> list[dict[str, Any]]:
    """Returns the best round of each query, run in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.spark.job"],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    best: dict[str, dict[str, Any]] = {}
    for line in lines:
        known = best.setdefault(line["name"], line)
        if line["cpu_seconds"] < known["cpu_seconds"]:
            best[line["name"]] = {**line, "seconds": min(line["seconds"], known["seconds"])}
    return list(best.values())


def figure(row: str, told: dict[str, Any], rows: int) -> Figure:
    return Figure(row, told["name"], told["seconds"], told["cpu_seconds"], rows, told["worker_mib"])


def judged(found: Figure, mark: str, *, met: bool) -> Figure:
    return found._replace(mark=mark, met=met)


def query(name: str, into: str, rounds: int = ROUNDS, **more: Any) -> dict[str, Any]:
    return {"name": name, "format": "kafka_log", "into": into, "rounds": rounds, **more}


class Bench:
    """The rows of the bench; each creates its data in its own folder."""

    def __init__(self, scratch: Path, scale: float) -> None:
        self._scratch = scratch
        self._scale = scale

    def _node(self, name: str) -> Path:
        folder = self._scratch / name
        folder.mkdir()
        return data.node_at(folder)

    def first(self) -> list[Figure]:
        """Measures twice: the very first session writes the archive of Spark's classes, which the second one uses."""
        node = self._node("first")
        rows = data.log_of(node / "orders-0", size=SMALL, total_bytes=1 << 20)
        options = {"end": "log_end"}
        one = query("first", "count", rounds=1, options=options, path=str(node))
        job(queries=[one])
        time.sleep(sized(10, 1))  # its JVM is still writing
        began = time.perf_counter()
        [told] = job(queries=[one])
        took = time.perf_counter() - began
        found = figure("first", {**told, "seconds": took, "name": "session and first query"}, rows)
        return [judged(found, "8 s", met=took <= 8)]

    def small(self) -> list[Figure]:
        """Measures records of 100 B: all columns, Parquet, and counting."""
        found = self._records("small", SMALL, int(4_000_000 * self._scale), parquet=True)
        by_name = {entry.name: entry for entry in found}
        noop = by_name["all columns, directory"]
        counted = by_name["sum(record_count) of batches"]
        parquet, their_parquet = by_name["Parquet, directory"], by_name["Parquet, connector"]
        marks = {
            noop: ("1.5 M rows/CPU s", noop.rate >= 1.5e6),
            counted: ("1 s", counted.seconds <= self._scale),
            parquet: ("1.5 × connector", parquet.seconds * 1.5 <= their_parquet.seconds),
        }
        return [judged(f, marks[f][0], met=marks[f][1]) if f in marks else f for f in found]

    def large(self) -> list[Figure]:
        """Measures records of 1 KiB."""
        found = self._records("large", LARGE, int(1_000_000 * self._scale), parquet=False)
        theirs = next(f for f in found if f.name == "all columns, connector")
        return [
            judged(f, "1.3 × connector", met=f.rate >= 1.3 * theirs.rate)
            if f.name == "all columns, directory"
            else f
            for f in found
        ]

    def _records(self, row: str, size: int, count: int, *, parquet: bool) -> list[Figure]:
        with ours(1, 1, OURS_WRITE_BEHIND) as cluster:
            create_topic(cluster, row, PARTITIONS, 1)
            produce(cluster, row, PARTITIONS, size=size, records=count)
            live = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": row}
            local = {"subscribe": row, "end": "log_end"}
            path = str(cluster.directory)
            out = str(self._scratch / "parquet")
            mine = [
                query("all columns, directory", "noop", options=local, path=path),
                query("all columns, live", "noop", options=live),
                query(
                    "count() of offset, directory",
                    "count",
                    options=local,
                    path=path,
                    schema="offset bigint",
                ),
                query("count(), directory", "count", options=local, path=path),
                query(
                    "sum(record_count) of batches",
                    "sum",
                    options={**local, "level": "batches", "columns": "record_count"},
                    path=path,
                    column="record_count",
                ),
            ]
            theirs = [
                query("all columns, connector", "noop", options=live, format="kafka"),
                query("count(), connector", "count", options=live, format="kafka"),
            ]
            if parquet:
                mine.append(query("Parquet, directory", out, options=local, path=path))
                theirs.append(query("Parquet, connector", out, options=live, format="kafka"))
            told = job(conf=FULL_COMPILER, queries=mine)
            jars = {"spark.jars": ",".join(spark_connector.jars())}
            told += job(conf={**FULL_COMPILER, **jars}, queries=theirs)
        assert all(figures["counted"] in (None, count) for figures in told), told
        return [figure(row, figures, count) for figures in told]

    def filter(self) -> list[Figure]:
        """Measures `offset < 1000` over 1 GB in eight partitions."""
        node = self._node("filter")
        one = node.parent / "one-0"
        rows = data.log_of(one, size=LARGE, total_bytes=int(1e9 * self._scale / 8))
        data.many_of(node, one, "filtered", 8)
        options = {"end": "log_end"}
        [told] = job(
            queries=[
                query(
                    "offset < 1000", "count", options=options, path=str(node), where="offset < 1000"
                )
            ]
        )
        assert told["counted"] == 8 * min(rows, 1000), told
        found = figure("filter", told, told["counted"])
        return [judged(found, "0.6 s", met=found.seconds <= 0.6)]

    def metadata(self) -> list[Figure]:
        """Measures records of the metadata log per CPU second, over a whole warm session."""
        node = self._node("metadata")
        count = int(1_000_000 * self._scale)
        data.metadata_log(node, count)
        common = {"format": "kafka_metadata", "path": str(node)}
        queries = [
            query(table, "noop", **{**common, "options": {"table": table}}) for table in TABLES
        ]
        found = [figure("metadata", told, count) for told in job(queries=queries)]
        return [judged(f, "150 k records/CPU s", met=f.rate >= 150_000) for f in found]

    def planning(self) -> list[Figure]:
        """Measures planning for 1,000 partitions of 100 segments each."""
        node = self._node("planning")
        partitions = max(1, int(1000 * self._scale))
        data.many_segments(node, partitions=partitions, segments=100)
        planned = {"name": "planned", "options": {"end": "log_end"}, "path": str(node)}
        [told] = job(planned=planned)
        found = figure("planning", told, partitions * 100)
        met = found.seconds <= 2 * self._scale and found.mib <= 300
        return [judged(found, "2 s, 300 MiB", met=met)]

    def scan(self) -> list[Figure]:
        """Measures 10 GB with all columns; the memory of workers is measured on a tenth of it."""
        node = self._node("scan")
        one = node.parent / "one-0"
        rows = data.log_of(one, size=LARGE, total_bytes=int(125e6 * min(1, 4 * self._scale)))
        count = max(10, int(80 * self._scale))
        data.many_of(node, one, "scanned", count)
        options = {"end": "log_end"}
        found = []
        for name, some in (("a tenth", count // 10), ("all of it", count)):
            only = {"assign": json.dumps({"scanned": list(range(some))}), **options}
            queries = [query(name, "noop", rounds=1, options=only, path=str(node))]
            [told] = job(conf=FULL_COMPILER, queries=queries)
            found.append(figure("scan", told, rows * some))
        flat = found[1].mib <= 1.1 * found[0].mib + 16
        return [
            found[0],
            judged(found[1], "memory flat, 400 MiB", met=flat and found[1].mib <= 400),
        ]

    def read(self) -> list[Figure]:
        """Measures reads in each codec, of each system's files and from its broker, in turns with the connector."""
        return self._of_each_system(self._read)

    def _of_each_system(
        self, measured: Callable[[Cluster, int, int], list[Figure]]
    ) -> list[Figure]:
        """Measures on one broker of each system with `measured(cluster, size, count)` of small and of large records."""
        found = []
        for system in systems_of(None):
            with SYSTEMS[system](1, 1, settings_for(system, fsync=False)) as cluster:
                for size, count in ((SMALL, 2_000_000), (LARGE, 500_000)):
                    found += measured(cluster, size, int(count * self._scale))
        return found

    def _read(self, cluster: Cluster, size: int, count: int) -> list[Figure]:
        count = max(1, count // SHARE) * SHARE
        turns: list[dict[str, Any]] = []
        for codec in CODECS:
            topic = f"read-{size}-{codec}"
            create_topic(cluster, topic, PARTITIONS, 1)
            options = {"compression": codec, "batch_bytes": BATCH, "are_equal": False}
            produce(cluster, topic, PARTITIONS, size=size, records=count, **options)
            live = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic}
            local = {"subscribe": topic, "end": "log_end"}
            path = str(cluster.directory)
            what = f"{size} B, {codec}, {cluster.system}"
            sources = [
                query(f"{what}: files", "noop", 1, options=local, path=path),
                query(f"{what}: broker", "noop", 1, options=live),
                query(f"{what}: connector", "noop", 1, options=live, format="kafka"),
            ]
            turns += sources * ROUNDS
        jars = {"spark.jars": ",".join(spark_connector.jars())}
        told = [
            figure("read", each, count)
            for each in job(conf={**FULL_COMPILER, **jars}, queries=turns)
        ]
        found = []
        for files, broker, theirs in zip(told[::3], told[1::3], told[2::3], strict=True):
            found += [
                judged(mine, "2 × connector, CPU", met=mine.rate >= 2 * theirs.rate)
                for mine in (files, broker)
            ]
            found.append(theirs)
        return found

    def write(self) -> list[Figure]:
        """Measures writes of records of 100 B and 1 KiB to each system, in turns with the connector's sink."""
        return self._of_each_system(self._written)

    def _written(self, cluster: Cluster, size: int, count: int) -> list[Figure]:
        topic = f"written-{size}"
        create_topic(cluster, topic, PARTITIONS, 1)
        options = {"kafka.bootstrap.servers": cluster.bootstrap, "topic": topic}
        batches = {"kafka.batch.size": str(BATCH_BYTES), "kafka.linger.ms": "5"}
        made = {"into": "topic", "rounds": 1, "count": count, "size": size}
        to = f"{size} B to {cluster.system}"
        sinks = [
            {"name": f"{to}, ours", "format": "kafka_log", "options": options},
            {"name": f"{to}, connector", "format": "kafka", "options": options},
            # with the batches that are our default
            {
                "name": f"{to}, tuned",
                "format": "kafka",
                "options": {**options, **batches},
            },
        ]
        jars = {"spark.jars": ",".join(spark_connector.jars())}
        turns = [{**sink, **made} for _ in range(ROUNDS) for sink in sinks]
        mine, theirs, tuned = (
            figure("write", told, count)
            for told in job(conf={**FULL_COMPILER, **jars}, queries=turns)
        )
        met = mine.seconds <= theirs.seconds
        return [judged(mine, "1 × connector", met=met), theirs, tuned]


ROWS: dict[str, Callable[[Bench], list[Figure]]] = {
    name: getattr(Bench, name)
    for name in (
        "first",
        "small",
        "large",
        "filter",
        "metadata",
        "planning",
        "scan",
        "read",
        "write",
    )
}


TITLES = ("row", "query", "wall s", "CPU s", "1000 rows/CPU s", "worker MiB", "mark", "met")


def show(lines: Sequence[Sequence[str]], *, markdown: bool) -> None:
    for line in lines:
        if markdown:
            print("| " + " | ".join(line) + " |", flush=True)
            continue
        row, name, *numbers, mark, met = line
        shown = "".join(f"{n:>17}" for n in numbers)
        print(f"{row:<10}{name:<32}{shown}  {mark:<22}{met}", flush=True)


def _cells(f: Figure) -> tuple[str, ...]:
    met = "" if f.met is None else "yes" if f.met else "NO"
    numbers = (f"{f.seconds:.2f}", f"{f.cpu_seconds:.2f}", f"{f.rate / 1000:.0f}", f"{f.mib:.0f}")
    return (f.row, f.name, *numbers, f.mark, met)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench spark", description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], help="which rows; default all")
    parser.add_argument(
        "--scale", type=float, default=sized(1.0, 0.001), help="how much of the data (default 1)"
    )
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    show(
        [TITLES, *([["---"] * len(TITLES)] if options.markdown else [])], markdown=options.markdown
    )
    for name in options.rows or ROWS:
        with tempfile.TemporaryDirectory(prefix="bench-spark-") as scratch:
            figures = ROWS[name](Bench(Path(scratch), options.scale))
        show([_cells(f) for f in figures], markdown=options.markdown)


if __name__ == "__main__":
    main()
