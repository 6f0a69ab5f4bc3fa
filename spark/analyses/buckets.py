"""Time buckets: as many as a plot can show, of a width that a person finds natural."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BUCKETS_MAX = 200
WIDTHS_MS = (
    *(100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000),
    *(3_600_000, 21_600_000, 86_400_000, 604_800_000),
)


def width_for(span_ms: int) -> int:
    """The smallest natural width that parts the span into at most `BUCKETS_MAX`; weeks beyond."""
    return next((w for w in WIDTHS_MS if span_ms <= w * BUCKETS_MAX), WIDTHS_MS[-1])


def bucket_ms(frame: DataFrame, column: str) -> int:
    """The width for a DataFrame's times; runs a small job."""
    row = frame.selectExpr(
        f"unix_millis(min({column})) AS first", f"unix_millis(max({column})) AS last"
    ).first()
    return width_for(0 if row is None or row["first"] is None else row["last"] - row["first"])


def literal(sql: str, **values: int) -> str:
    """The SQL with `:name` replaced by whole numbers."""
    for name, value in values.items():
        sql = sql.replace(f":{name}", str(int(value)))
    return sql
