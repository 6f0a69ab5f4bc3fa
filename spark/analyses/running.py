"""Runs analyses over the views of a cluster, each in the first engine for which its data is not too much; results are
bounded.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import ROWS_MAX, Analysis, DataFrame, ReportVerdict, run
from trimaran.spark.analyses.views import Views
from trimaran.spark.data_source.tracebacks import captured, cause_of
from trimaran.spark.in_process.database import TooLarge
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import errors as spark_errors
else:
    spark_errors = imported_later("pyspark.errors")

# Texts of errors that mean missing data, not unreadable data.
ABSENT = ("no metadata log", "there is no", "no log directory")

NOT_APPLICABLE = ": not applicable: "
TOPICS_FOUND = "; topics found"  # part of the message if the logs of a topic are missing


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an analysis. `frame` is None if it failed; then a verdict gives the reason."""

    analysis: Analysis
    verdicts: tuple[ReportVerdict, ...]
    frame: pd.DataFrame | None
    seconds: float
    engine: str


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs SQL; the views are its tables."""

    name: str
    views: Views


Opening = Callable[[], AbstractContextManager[Engine]]


def run_all(
    analyses: Sequence[Analysis], engines: Sequence[Opening], since_ms: int | None = None
) -> Iterator[Outcome]:
    """Yields the outcomes in order, each as soon as it is known. Damaged data results in a verdict, not in an
    exception.

    Args:
        engines: each analysis runs in the first of them in which it does not need too much memory. An engine that no
            analysis needs is not opened.
        since_ms: earlier rows are omitted; verdicts mention this time if no rows are left.
    """
    with ExitStack() as stack:
        opened: list[Engine] = []

        def engine(number: int) -> Engine:
            while len(opened) <= number:
                opened.append(stack.enter_context(engines[len(opened)]()))
            return opened[number]

        for analysis in analyses:
            started = time.monotonic()
            for number in range(len(engines)):
                chosen = engine(number)
                verdicts, frame, is_too_large = _run(analysis, chosen.views, since_text(since_ms))
                if not is_too_large or number == len(engines) - 1:
                    seconds = time.monotonic() - started
                    yield Outcome(analysis, verdicts, frame, seconds, chosen.name)
                    break


def _run(
    analysis: Analysis, views: Views, since: str
) -> tuple[tuple[ReportVerdict, ...], pd.DataFrame | None, bool]:
    """Returns the verdicts, the rows, and whether the engine lacks the memory."""
    try:
        frame = _computed(analysis, views)
    except TooLarge as error:
        return (_not_possible(analysis, f"{error}; Spark has no such bound"),), None, True
    except (spark_errors.PySparkException, DataUnreadable, OptionError, OSError) as error:
        why = cause_of(error) if isinstance(error, spark_errors.PySparkException) else f"{error}"
        if any(word in why for word in ABSENT):
            # a topic may exist even if none of its logs is here
            is_topic = TOPICS_FOUND in why
            return (not_applicable(analysis, "" if is_topic else why),), None, False
        return (_not_possible(analysis, why),), None, False
    verdicts = analysis.evaluate(frame)
    missing = f"there are no {analysis.needs}{since}"
    return tuple(verdicts or [not_applicable(analysis, missing)]), frame, False


def since_text(since_ms: int | None) -> str:
    """Returns a phrase for `since_ms` that can follow a noun; empty for None."""
    if since_ms is None:
        return ""
    return f" since {datetime.fromtimestamp(since_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _not_possible(analysis: Analysis, why: str) -> ReportVerdict:
    return ReportVerdict("bad", f"{analysis.title}: not possible: {why}")


def not_applicable(analysis: Analysis, why: str = "") -> ReportVerdict:
    return ReportVerdict(
        "info", f"{analysis.title}{NOT_APPLICABLE}{why or f'there are no {analysis.needs}'}."
    )


def _computed(analysis: Analysis, views: Views) -> pd.DataFrame:
    required = {
        view: views.table(analysis, view)
        for view in analysis.views
        if view not in analysis.optional
    }
    try:
        optional = {view: views.table(analysis, view) for view in analysis.optional}
        made = analysis.compute(**required, **optional)
        return collected(made)
    except (spark_errors.PySparkException, DataUnreadable):  # for example no metadata log
        if not analysis.optional:
            raise
        return collected(analysis.compute(**required))


# The range of times that can be drawn: pandas counts nanoseconds, and differences of times must fit, too.
FIRST_TIME, LAST_TIME = "1970-01-01", "2200-01-01"


def collected(table: DataFrame) -> pd.DataFrame:
    """Collects the first rows of a result; impossible times become null."""
    columns = [
        f"CASE WHEN `{name}` BETWEEN TIMESTAMP '{FIRST_TIME}' AND TIMESTAMP '{LAST_TIME}' THEN `{name}` END AS `{name}`"
        if kind == "timestamp"
        else f"`{name}`"
        for name, kind in table.dtypes
    ]
    with warnings.catch_warnings():
        # PySpark warns of Arrow whenever a query fails; the error itself contains more.
        warnings.filterwarnings("ignore", "toPandas attempted Arrow", UserWarning)
        with captured():
            sql = f"SELECT {', '.join(columns)} FROM {{rows}} LIMIT {ROWS_MAX}"
            return run(sql, rows=table).toPandas()
