"""Time buckets of natural widths, at most as many as a plot can show, even if single clocks are wrong.

Rows outside of all buckets are counted separately: they have no time, or a time far from all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trimaran.spark.analyses.analysis import YEARS_MS, DataFrame, ReportVerdict, count_text, run

if TYPE_CHECKING:
    import pandas as pd

BUCKETS_MAX = 200
WIDTHS_MS = (
    *(100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000, 31_536_000_000),
)
KAFKAS = "BETWEEN 946684800000 AND 4102444800000"  # the years 2000 to 2100
# Times are outliers if their distance from the middle 98 % is more than this many times the length of that span.
OUTLIER_SPANS = 5


class Window(NamedTuple):
    """The width of a bucket, and the times [low, high] that contain the data, except for clocks that are years off."""

    bucket_ms: int
    low_ms: int
    high_ms: int


def width_for(span_ms: int) -> int:
    """Returns the smallest natural width that divides the span into at most `BUCKETS_MAX` buckets, else whole years."""
    return next((w for w in WIDTHS_MS if span_ms <= w * BUCKETS_MAX), WIDTHS_MS[-1])


def window_of(frame: DataFrame, column: str, near: DataFrame | None = None) -> Window:
    """Returns the window of a DataFrame's times. Runs one small job, and two more if the times are decades apart.

    Only times that Kafka can have written count, since a third of all may be in 1970; if there are none, times since
    1970 count. If they are twenty years apart, the window is around the median.

    Args:
        near: a DataFrame with the same column, from which the median is taken (default: `frame`).
    """
    window = _window_of_all(frame, column)
    if window.high_ms - window.low_ms <= YEARS_MS:
        return window
    millis = f"unix_millis({column})"
    middle = f"percentile_approx({millis}, 0.5) FILTER (WHERE {millis} BETWEEN {{}} AND {{}})"
    sql = f"SELECT {middle.format(*window[1:])} AS middle FROM {{rows}}"
    row = run(sql, rows=frame if near is None else near).first()
    if row is None or row["middle"] is None:
        return window_of(frame, column)
    low, high = row["middle"] - YEARS_MS // 2, row["middle"] + YEARS_MS // 2
    near_sql = f"SELECT {column} FROM {{rows}} WHERE {millis} BETWEEN {low} AND {high}"
    return _window_of_all(run(near_sql, rows=frame), column)


def _window_of_all(frame: DataFrame, column: str) -> Window:
    millis = f"unix_millis({column})"
    columns = []
    for name, which in (("known", KAFKAS), ("any", ">= 0")):
        where = f"FILTER (WHERE {millis} {which})"
        columns += [
            f"min({millis}) {where} AS {name}_first",
            f"max({millis}) {where} AS {name}_last",
            f"percentile_approx({millis}, array(0.01, 0.99)) {where} AS {name}_middle",
        ]
    row = run(f"SELECT {', '.join(columns)} FROM {{rows}}", rows=frame).first()
    for name in ("known", "any"):
        if row is not None and row[f"{name}_first"] is not None:
            return window_for(row[f"{name}_first"], row[f"{name}_last"], *row[f"{name}_middle"])
    return Window(WIDTHS_MS[0], 0, 0)


def window_for(first_ms: int, last_ms: int, low_ms: int, high_ms: int) -> Window:
    """Returns the window for the extremes and the middle 98 % of some times."""
    reach = OUTLIER_SPANS * max(high_ms - low_ms, 60_000)
    low, high = max(first_ms, low_ms - reach), min(last_ms, high_ms + reach)
    return Window(width_for(high - low), low, high)


def in_window(sql: str, window: Window) -> str:
    """Returns the SQL with `:bucket_ms`, `:low_ms` and `:high_ms` filled in."""
    for name, value in window._asdict().items():
        sql = sql.replace(f":{name}", str(int(value)))
    return sql


def bucketed(column: str) -> str:
    """Returns the SQL expression for the start of the bucket of a time; null outside of the window."""
    start = f"timestamp_millis(floor(unix_millis({column}) / :bucket_ms) * :bucket_ms)"
    return f"CASE WHEN unix_millis({column}) BETWEEN :low_ms AND :high_ms THEN {start} END"


def undated(frame: pd.DataFrame, value: str, noun: str, title: str) -> list[ReportVerdict]:
    """Returns a verdict about rows without a bucket, empty if there are none; each row counts `value`."""
    count = int(frame.loc[frame["ts"].isna(), value].sum())
    if not count:
        return []
    verb = "is" if count == 1 else "are"
    text = (
        f"{count_text(count, noun)} {verb} not in the figure: no time, or one far from all others"
    )
    return [ReportVerdict("info", f"{title}: {text}.")]
