"""An analysis: SQL over our views, a plot of its small result, and verdicts as sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from trimaran.node.text.wording import plural_of
from trimaran.spark.in_process.database import LocalTable
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import pyarrow as pa
    import pyspark.sql
else:
    pa = imported_later("pyarrow")

# These types are for annotations: an analysis imports their packages only when it runs.
DataFrame: TypeAlias = "pyspark.sql.DataFrame | LocalTable"  # a view or a result, in either engine
Rows: TypeAlias = "pd.DataFrame"  # a collected result, as a pandas DataFrame
Row: TypeAlias = "pd.Series[float]"
Figure: TypeAlias = "go.Figure"

Level = Literal["ok", "warn", "bad", "info"]


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """One line at the top of the report."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """`compute` takes the DataFrames of views by name; `sql` is the query that it runs, usable in any session with
    `views()`.

    Args:
        number: the number in the catalogue, such as M5 (metadata) or D10 (data).
        views: the views that it reads, each with the needed columns as a Spark schema.
        optional: the views that may be missing or unreadable.
        needs: the data that it needs, worded as the end of the sentence "not applicable: there are no …".
        plot: draws the rows (at most `ROWS_MAX`, the most serious first).
        evaluate: returns the verdicts; an empty list means that the analysis does not apply.
    """

    number: str
    name: str
    title: str
    question: str
    views: Mapping[str, str]
    needs: str
    sql: str
    compute: Callable[..., DataFrame]
    plot: Callable[[Rows], Figure]
    evaluate: Callable[[Rows], Sequence[ReportVerdict]]
    optional: frozenset[str] = frozenset()


Compute = TypeVar("Compute", bound=Callable[..., DataFrame])
REGISTERED: dict[str, Analysis] = {}  # analyses by name; contains only those of imported modules


def analysis(
    *,
    number: str,
    title: str,
    question: str,
    views: Mapping[str, str],
    needs: str,
    sql: str,
    plot: Callable[[Rows], Figure],
    evaluate: Callable[[Rows], Sequence[ReportVerdict]],
    optional: frozenset[str] = frozenset(),
) -> Callable[[Compute], Compute]:
    """Registers the decorated function as the `compute` of an analysis of the same name; see `Analysis`."""

    def register(compute: Compute) -> Compute:
        name = compute.__name__
        REGISTERED[name] = Analysis(
            number, name, title, question, views, needs, sql, compute, plot, evaluate, optional
        )
        return compute

    return register


ROWS_MAX = 20_000  # bounds the memory of a collected result; the most serious rows come first


def run(sql: str, /, **tables: DataFrame) -> DataFrame:
    """Runs Spark SQL in the engine of the tables, which have the names of its `{placeholders}`."""
    first = next(iter(tables.values()))
    given: dict[str, Any] = dict(tables)
    if isinstance(first, LocalTable):
        return first.database.query(sql, given)
    return first.sparkSession.sql(sql, **given)


def map_groups(
    rows: DataFrame, column: str, change: Callable[[pa.Table], pa.Table], schema: str
) -> DataFrame:
    """Applies `change` to each group of rows with equal values of a column, and returns the resulting rows.

    Args:
        schema: the columns of the result, as Spark writes them; strings and longs only.
    """
    if isinstance(rows, LocalTable):
        kinds = {"string": pa.string(), "long": pa.int64()}
        columns = [(name, kinds[kind]) for name, kind in map(str.split, schema.split(", "))]
        return rows.database.map_groups(rows, column, change, columns)
    return rows.groupBy(column).applyInArrow(change, schema)


# Twenty years, longer than Kafka has existed: a longer time means that one of the two clocks was wrong.
SECONDS_MAX = 20 * 365 * 86_400.0
YEARS_MS = int(SECONDS_MAX * 1000)


def seconds_text(seconds: float) -> str:
    """Returns a duration as readable text."""
    if seconds != seconds or abs(seconds) > SECONDS_MAX:
        return "an unknown time (clocks are years off)"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:,.0f} days"


def doubled_text(ms_from: float) -> str:
    """Returns the text of a class of durations, which begins at that number of milliseconds and ends at twice that."""
    if ms_from != ms_from or ms_from > YEARS_MS:
        return "unknown"
    if ms_from <= 1:
        return "less than 2 ms"
    return f"{seconds_text(ms_from / 1000)} to {seconds_text(ms_from / 500)}"


def time_text(moment: pd.Timestamp) -> str:
    """Returns the text of a time; NaT is a time that no correct clock can have shown."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment == moment else "an unknown time"


def bytes_text(size: float) -> str:
    """Returns a size as text, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def count_text(number: float, noun: str) -> str:
    """Returns a text such as `1 broker`, `2,000 brokers` or `no broker`."""
    if not number:
        return f"no {noun}"
    return f"{number:,.0f} {noun if number == 1 else plural_of(noun)}"


IDS_SHOWN = 20


def ids_text(noun: str, ids: Iterable[float]) -> str:
    """Returns `broker 11` or `brokers 11, 12`; a long list is shortened."""
    shown = [f"{id_:.0f}" for id_ in sorted(ids)]
    more = f" and {len(shown) - IDS_SHOWN} more" if len(shown) > IDS_SHOWN else ""
    return f"{noun}{'' if len(shown) == 1 else 's'} {', '.join(shown[:IDS_SHOWN])}{more}"


def times_text(number: int) -> str:
    """Returns a text such as `never`, `once` or `3 times`."""
    return {0: "never", 1: "once"}.get(number, f"{number:,} times")
