"""The engines that analyses run in: DuckDB in this process for data that fits into its memory, and Spark for larger
data.

Both run the same SQL (`trimaran.spark.in_process.dialect`) over the same views, and the rows are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trimaran.spark.analyses import views
from trimaran.spark.analyses.analysis import Analysis, DataFrame
from trimaran.spark.analyses.running import Engine, Opening
from trimaran.spark.analyses.views import Columns, Views
from trimaran.spark.in_process.database import database
from trimaran.spark.in_process.reading import LEVEL
from trimaran.spark.origins.directories.discovery import find_log_directories
from trimaran.spark.sessions.session import FULL_COMPILER, session
from trimaran.spark.sources import VIEWS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EngineName = Literal["auto", "duckdb", "spark"]  # auto: DuckDB, and Spark for larger data

SETTINGS = {"spark.sql.shuffle.partitions": "2"}
# A report runs a hundred small queries: compiling each costs more than running it, unless there is much data.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Views that are not cached.
RECORDS = frozenset(view for view, (_, options) in VIEWS.items() if LEVEL in options.items())
MUCH_BYTES = 32 << 20  # a million records: beyond this, compiled queries cost less


def engines(
    name: EngineName, analyses: Sequence[Analysis], data: Path, since_ms: int | None = None
) -> Sequence[Opening]:
    """Returns the engines for analyses of the node directories below `data`, in the order in which they are tried.

    Opening Spark raises JavaNotFound if it cannot run.
    """
    small = partial(duckdb, analyses, data, since_ms)
    large = partial(spark, analyses, data, since_ms)
    return {"auto": (small, large), "duckdb": (small,), "spark": (large,)}[name]


@contextmanager
def duckdb(analyses: Sequence[Analysis], data: Path, since_ms: int | None) -> Iterator[Engine]:
    """Yields the engine of this process."""
    with database() as opened:
        yield Engine("DuckDB", Views(analyses, views.in_this_process(opened, data), since_ms))


@contextmanager
def spark(analyses: Sequence[Analysis], data: Path, since_ms: int | None) -> Iterator[Engine]:
    """Yields Spark, with a session of its own or the running one. Views are cached, except records: they do not fit
    into memory, so each analysis reads the columns that it needs.
    """
    much = is_much(data)
    running = session(app_name="trimaran report", conf=FULL_COMPILER if much else None)
    load = views.in_spark(running, data)
    frames = []

    def cached(view: str, columns: Columns) -> DataFrame:
        frame = load(view, columns)
        if view not in RECORDS:
            frames.append(frame.cache())
        return frame

    with spark_settings(running, SETTINGS if much else {**SETTINGS, **INTERPRETED}):
        try:
            yield Engine("Spark", Views(analyses, cached, since_ms, apart=RECORDS))
        finally:
            for frame in frames:
                frame.unpersist()


def is_much(data: Path) -> bool:
    """True if the segments of the node directories take more than `MUCH_BYTES`; stops counting there."""
    size = 0
    for directory in find_log_directories([str(data)]):
        for path in Path(directory.path).glob("*-*/*.log"):
            try:
                size += path.stat().st_size
            except OSError:  # retention deleted the file meanwhile, or it may not be read
                continue
            if size > MUCH_BYTES:
                return True
    return False


@contextmanager
def spark_settings(session: SparkSession, changed: Mapping[str, str]) -> Iterator[None]:
    """Applies our settings during the run only, since the session may be the caller's."""
    before: Mapping[str, str | None] = {key: session.conf.get(key, None) for key in changed}
    for key, value in changed.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, old)
