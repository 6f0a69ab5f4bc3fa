"""Runs analyses over the views of a cluster: each view is read once, with the needed columns only; results are
bounded.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import ROWS_MAX, SECONDS_MAX, Analysis, ReportVerdict
from trimaran.spark.data_source.tracebacks import captured, cause_of
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import errors as spark_errors
    from pyspark.sql import DataFrame, SparkSession
else:
    spark_errors = imported_later("pyspark.errors")

SETTINGS = {"spark.sql.shuffle.partitions": "2"}
# A report runs a hundred small queries: compiling each costs more than running it, unless there is much data.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Texts of errors that mean missing data, not unreadable data.
ABSENT = ("no metadata log", "there is no", "no log directory")

NOT_APPLICABLE = ": not applicable: "
TOPICS_FOUND = "; topics found"  # part of the message if the logs of a topic are missing

RECORDS = "records"  # the view of the data records
Load = Callable[[str, str], "DataFrame"]  # view, schema


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an analysis. `frame` is None if it failed; then a verdict gives the reason."""

    analysis: Analysis
    verdicts: tuple[ReportVerdict, ...]
    frame: pd.DataFrame | None
    seconds: float


def run_all(
    spark: SparkSession,
    analyses: Sequence[Analysis],
    load: Load,
    *,
    is_much: bool = False,
    since_ms: int | None = None,
) -> Iterator[Outcome]:
    """Yields the outcomes in order, each as soon as it is known. Damaged data results in a verdict, not in an
    exception.

    Args:
        is_much: there is enough data to make compiling queries worthwhile.
        since_ms: `load` omits older rows; verdicts mention it if nothing is left.
    """
    with _settings(spark, SETTINGS if is_much else {**SETTINGS, **INTERPRETED}):
        views = Views(analyses, load)
        try:
            for analysis in analyses:
                yield _run(analysis, views, since_text(since_ms))
        finally:
            views.close()


class Views:
    """The DataFrames by view. Each is loaded once, with all columns that any analysis reads, and kept.

    Only records are not kept: they do not fit into memory, so each analysis reads the columns that it needs.
    """

    def __init__(self, analyses: Sequence[Analysis], load: Load) -> None:
        self._load = load
        self._schemas: dict[str, dict[str, str]] = {}
        self._users: dict[str, int] = {}
        for analysis in analyses:
            for view, schema in analysis.views.items():
                self._schemas.setdefault(view, {}).update(columns_of(schema))
                self._users[view] = self._users.get(view, 0) + 1
        self._frames: dict[str, DataFrame] = {}

    def frame(self, analysis: Analysis, view: str) -> DataFrame:
        """Returns the DataFrame of a view. Raises PySparkException if the view cannot be read."""
        if view == RECORDS:
            return self._load(view, analysis.views[view])
        if view not in self._frames:
            schema = ", ".join(f"{name} {kind}" for name, kind in self._schemas[view].items())
            frame = lengths_that_can_be(self._load(view, schema))
            self._frames[view] = frame.cache() if self._users[view] > 1 else frame
        return self._frames[view]

    def close(self) -> None:
        for frame in self._frames.values():
            frame.unpersist()


def lengths_that_can_be(frame: DataFrame) -> DataFrame:
    """Sets the length of an interval to null if one of its clocks is years off, since it would dominate every sum."""
    if "seconds" not in frame.columns:
        return frame
    seconds = f"CASE WHEN seconds <= {SECONDS_MAX} THEN seconds END AS seconds"
    return frame.selectExpr("* EXCEPT (seconds)", seconds)


def columns_of(schema: str) -> dict[str, str]:
    """Returns the names and types in a text such as `a int, b array<struct<x: int>>`."""
    columns, depth, start = {}, 0, 0
    for at, letter in enumerate(schema + ","):
        depth += (letter == "<") - (letter == ">")
        if letter == "," and not depth:
            name, _, kind = schema[start:at].strip().partition(" ")
            columns[name] = kind
            start = at + 1
    return columns


def _run(analysis: Analysis, views: Views, since: str) -> Outcome:
    started = time.monotonic()

    def outcome(verdicts: Sequence[ReportVerdict], frame: pd.DataFrame | None) -> Outcome:
        return Outcome(analysis, tuple(verdicts), frame, time.monotonic() - started)

    try:
        frame = _computed(analysis, views)
    except spark_errors.PySparkException as error:
        why = cause_of(error)
        if any(word in why for word in ABSENT):
            # a topic may exist even if none of its logs is here
            is_topic = TOPICS_FOUND in why
            return outcome([not_applicable(analysis, "" if is_topic else why)], None)
        return outcome([ReportVerdict("bad", f"{analysis.title}: not possible: {why}")], None)
    verdicts = analysis.evaluate(frame)
    missing = f"there are no {analysis.needs}{since}"
    return outcome(verdicts or [not_applicable(analysis, missing)], frame)


def since_text(since_ms: int | None) -> str:
    """Returns a phrase for `since_ms` that can follow a noun; empty for None."""
    if since_ms is None:
        return ""
    return f" since {datetime.fromtimestamp(since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def not_applicable(analysis: Analysis, why: str = "") -> ReportVerdict:
    return ReportVerdict(
        "info", f"{analysis.title}{NOT_APPLICABLE}{why or f'there are no {analysis.needs}'}."
    )


def _computed(analysis: Analysis, views: Views) -> pd.DataFrame:
    required = {
        view: views.frame(analysis, view)
        for view in analysis.views
        if view not in analysis.optional
    }
    try:
        optional = {view: views.frame(analysis, view) for view in analysis.optional}
        made = analysis.compute(**required, **optional)
        return collected(made)
    except spark_errors.PySparkException:  # for example a directory without a metadata log
        if not analysis.optional:
            raise
        return collected(analysis.compute(**required))


# The range of times that can be drawn: pandas counts nanoseconds, and differences of times must fit, too.
FIRST_TIME, LAST_TIME = "1970-01-01", "2200-01-01"


def collected(frame: DataFrame) -> pd.DataFrame:
    """Collects the first rows of a result; impossible times become null."""
    columns = [
        f"CASE WHEN `{name}` BETWEEN TIMESTAMP '{FIRST_TIME}' AND TIMESTAMP '{LAST_TIME}' THEN `{name}` END AS `{name}`"
        if kind == "timestamp"
        else f"`{name}`"
        for name, kind in frame.dtypes
    ]
    with warnings.catch_warnings():
        # PySpark warns of Arrow whenever a query fails; the error itself says more.
        warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
        with captured():
            return frame.limit(ROWS_MAX).selectExpr(*columns).toPandas()


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Applies our settings during the run only, since the session may be the caller's."""
    before: Mapping[str, str | None] = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
