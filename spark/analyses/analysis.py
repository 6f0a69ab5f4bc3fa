"""An analysis: SQL over our views, a plot of its small result, and verdicts in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from trimaran.node.text.wording import plural_of

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    import pyspark.sql

# Types of analyses, which import none of these packages before they run.
DataFrame: TypeAlias = "pyspark.sql.DataFrame"  # of Spark: a view, or a result
Rows: TypeAlias = "pd.DataFrame"  # a result, collected
Row: TypeAlias = "pd.Series[float]"
Figure: TypeAlias = "go.Figure"

Level = Literal["ok", "warn", "bad", "info"]


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """One line of the report's head."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """`compute` takes the views' DataFrames by name; `sql` is what it runs, to be used in a session with `views()`.

    Args:
        number: its place in the catalogue, such as M5 (metadata) or D10 (data).
        views: those it takes, each with the columns that it reads, as a schema of Spark.
        optional: those of them that it does without where they cannot be read.
        needs: what there must be for it to apply, for the words "not applicable: there are no …".
        plot: a figure of the rows (at most `ROWS_MAX`, the gravest first).
        evaluate: verdicts; none says that it does not apply.
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
REGISTERED: dict[str, Analysis] = {}  # by name; those of the modules that were imported


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
    """Registers the decorated function as the `compute` of an analysis that has its name; see `Analysis`."""

    def register(compute: Compute) -> Compute:
        name = compute.__name__
        REGISTERED[name] = Analysis(
            number, name, title, question, views, needs, sql, compute, plot, evaluate, optional
        )
        return compute

    return register


ROWS_MAX = 20_000  # of a result that is collected: bounds memory, whatever the data; frames are ordered by gravity


def run(sql: str, /, **frames: DataFrame) -> DataFrame:
    """The SQL over DataFrames named as its `{placeholders}`."""
    first = next(iter(frames.values()))
    given: dict[str, Any] = dict(frames)
    return first.sparkSession.sql(sql, **given)


# Twenty years, longer than there is Kafka: clocks of which one is off were compared.
SECONDS_MAX = 20 * 365 * 86_400.0
YEARS_MS = int(SECONDS_MAX * 1000)


def seconds_text(seconds: float) -> str:
    """A duration as a person says it."""
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
    """A class of durations in powers of two, by its start in milliseconds: from there to twice that."""
    if ms_from != ms_from or ms_from > YEARS_MS:
        return "unknown"
    if ms_from <= 1:
        return "less than 2 ms"
    return f"{seconds_text(ms_from / 1000)} to {seconds_text(ms_from / 500)}"


def time_text(moment: pd.Timestamp) -> str:
    """A time of a frame, which is NaT where no clock can have shown it."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment == moment else "an unknown time"


def bytes_text(size: float) -> str:
    """A size in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def count_text(number: float, noun: str) -> str:
    """`1 broker`, `2,000 brokers`, `no broker`."""
    if not number:
        return f"no {noun}"
    return f"{number:,.0f} {noun if number == 1 else plural_of(noun)}"


IDS_SHOWN = 20


def ids_text(noun: str, ids: Iterable[float]) -> str:
    """`broker 11`, `brokers 11, 12`; of many the first."""
    shown = [f"{id_:.0f}" for id_ in sorted(ids)]
    more = f" and {len(shown) - IDS_SHOWN} more" if len(shown) > IDS_SHOWN else ""
    return f"{noun}{'' if len(shown) == 1 else 's'} {', '.join(shown[:IDS_SHOWN])}{more}"


def times_text(number: int) -> str:
    """`never`, `once`, `3 times`."""
    return {0: "never", 1: "once"}.get(number, f"{number:,} times")
