"""M5 over time: how many partitions were in which state at each moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import (
    POINTS_MAX,
    STATE_COLOURS,
    Analysis,
    Verdict,
    figure,
    seconds_text,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

STATES = ("offline", "under_min_isr", "under_replicated", "ok")

SQL = """
WITH edges AS (
  SELECT from_ts AS ts, state, 1 AS step FROM {partition_history} WHERE state != 'deleted'
  UNION ALL
  SELECT to_ts, state, -1 FROM {partition_history} WHERE state != 'deleted' AND to_ts IS NOT NULL
), steps AS (
  SELECT ts, state, sum(step) AS step FROM edges GROUP BY ts, state HAVING sum(step) != 0
  UNION ALL
  SELECT max(timestamp_millis(unix_millis(from_ts) + CAST(seconds * 1000 AS BIGINT))), 'ok', 0 FROM {partition_history}
)
SELECT ts, state, sum(step) OVER (PARTITION BY state ORDER BY ts) AS partitions
FROM steps
ORDER BY ts, state
"""


def replication_timeline(partition_history: DataFrame) -> DataFrame:
    """How many partitions are in a state from each moment on at which that number changed, and at the log's end.

    Returns:
        ts timestamp, state string, partitions long
    """
    return partition_history.sparkSession.sql(SQL, partition_history=partition_history)


def plot(frame: pd.DataFrame) -> go.Figure:
    """Stacked steps, the worst state at the bottom."""
    made = figure(height=320, yaxis_title="partitions", xaxis={"type": "date", "title": "UTC"})
    wide = frame.pivot_table(index="ts", columns="state", values="partitions", aggfunc="last")
    wide = wide.ffill().fillna(0)
    if len(wide) > POINTS_MAX // 4:
        wide = wide.iloc[:: -(-len(wide) // (POINTS_MAX // 4))]
    for state in STATES:
        if state in wide:
            made.add_scatter(
                x=wide.index,
                y=wide[state],
                name=state.replace("_", " "),
                stackgroup="all",
                line={"shape": "hv", "width": 0.5, "color": STATE_COLOURS[state]},
            )
    return made


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    if frame.empty:
        return []
    bad = frame[frame["state"].isin(["offline", "under_min_isr", "under_replicated"])]
    most = int(bad["partitions"].max()) if len(bad) else 0
    span = seconds_text((frame["ts"].max() - frame["ts"].min()).total_seconds())
    return [
        Verdict(
            "info",
            f"Replication: the log covers {span}; {most} partition{'s' * (most != 1)} under-replicated at once at "
            f"most.",
        )
    ]


ANALYSIS = Analysis(
    name="replication_timeline",
    title="Replication over time",
    question="How many partitions were in sync, under-replicated, below their minimum ISR, or offline at each moment?",
    view="partition_history",
    sql=SQL,
    compute=replication_timeline,
    plot=plot,
    evaluate=evaluate,
)
