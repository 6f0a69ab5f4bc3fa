"""Time buckets: as many as a plot can show, of a width that a person finds natural, whatever single clocks say."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS_MAX = 200
WIDTHS_MS = (
    *(100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000, 31_536_000_000),
)
OUTLIER_SPANS = 5  # so many times the span of the middle 98 % beyond it is not where the data is


class Window(NamedTuple):
    """The bucket's width, and the times [low, high] within which the data lies: clocks that are years off stay out."""

    bucket_ms: int
    low_ms: int
    high_ms: int


def width_for(span_ms: int) -> int:
    """The smallest natural width that parts the span into at most `BUCKETS_MAX`; years beyond."""
    return next((w for w in WIDTHS_MS if span_ms <= w * BUCKETS_MAX), WIDTHS_MS[-1])


def window_of(frame: DataFrame, column: str) -> Window:
    """The window of a DataFrame's times, of which those before 1970 are none; runs a small job."""
    row = (
        frame.where(f"unix_millis({column}) >= 0")
        .selectExpr(
            f"unix_millis(min({column})) AS first",
            f"unix_millis(max({column})) AS last",
            f"percentile_approx(unix_millis({column}), array(0.01, 0.99)) AS middle",
        )
        .first()
    )
    if row is None or row["first"] is None:
        return Window(WIDTHS_MS[0], 0, 0)
    return window_for(row["first"], row["last"], row["middle"][0], row["middle"][1])


def window_for(first_ms: int, last_ms: int, low_ms: int, high_ms: int) -> Window:
    """From the extremes and the middle 98 % of some times."""
    reach = OUTLIER_SPANS * max(high_ms - low_ms, 60_000)
    low, high = max(first_ms, low_ms - reach), min(last_ms, high_ms + reach)
    return Window(width_for(high - low), low, high)


def in_window(sql: str, window: Window) -> str:
    """The SQL with `:bucket_ms`, `:low_ms` and `:high_ms` filled in."""
    for name, value in window._asdict().items():
        sql = sql.replace(f":{name}", str(int(value)))
    return sql


def bucketed(column: str) -> str:
    """SQL of the start of the bucket that a time is in."""
    return f"timestamp_millis(floor(unix_millis({column}) / :bucket_ms) * :bucket_ms)"
