"""M5 over time: the number of partitions in each state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import NO_CLOCK, STATE_COLOURS, figure, nothing
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = imported_later("pandas")

STATES = ("offline", "under_min_isr", "under_replicated")

SQL = f"""
WITH edges AS (
  SELECT from_ts AS ts, state, 1 AS step FROM {{partition_history}} WHERE state != 'deleted'
  UNION ALL
  SELECT to_ts, state, -1 FROM {{partition_history}} WHERE state != 'deleted' AND to_ts IS NOT NULL
), steps AS (
  SELECT ts, count(*) AS changes, sum(step) AS partitions,
         sum(CASE WHEN state = 'offline' THEN step ELSE 0 END) AS offline,
         sum(CASE WHEN state = 'under_min_isr' THEN step ELSE 0 END) AS under_min_isr,
         sum(CASE WHEN state = 'under_replicated' THEN step ELSE 0 END) AS under_replicated
  FROM edges GROUP BY ts
), every AS (
  SELECT count(DISTINCT topic_id, partition) AS all_partitions FROM {{partition_history}}
), running AS (
  SELECT ts, changes, sum(partitions) OVER w AS partitions, sum(offline) OVER w AS offline,
         sum(under_min_isr) OVER w AS under_min_isr, sum(under_replicated) OVER w AS under_replicated
  FROM steps WINDOW w AS (ORDER BY ts)
)
SELECT {bucketed("ts")} AS ts, :bucket_ms AS bucket_ms, max(offline) AS offline, max(under_min_isr) AS under_min_isr,
       max(under_replicated) AS under_replicated,
       least(max(affected), max(all_partitions)) AS not_whole,
       max(partitions) AS partitions, sum(changes) AS changes,
       max(all_partitions) AS all_partitions,
       max_by(struct(offline, under_min_isr, under_replicated), struct(affected, offline, under_min_isr)) AS worst,
       max_by(struct(offline, under_min_isr, under_replicated), running.ts) AS last
FROM (SELECT *, offline + under_min_isr + under_replicated AS affected FROM running) running CROSS JOIN every
GROUP BY 1 ORDER BY 1
"""


def plot(frame: Rows) -> Figure:
    """Draws for each bucket the states when most partitions were affected, then those at its end, stacked."""
    if frame.empty:
        return nothing("no partition in the log")
    frame = frame[frame["ts"].notna()]
    if frame.empty:
        return nothing(NO_CLOCK)
    made = figure(height=320, yaxis_title="partitions", xaxis={"type": "date", "title": "UTC"})
    width = pd.Timedelta(milliseconds=float(frame["bucket_ms"].iloc[0]))
    for state in STATES:
        pairs = zip(frame["worst"], frame["last"], strict=True)
        times = [t for ts in frame["ts"] for t in (ts, ts + width)]
        values = [row[state] for pair in pairs for row in pair]
        made.add_scatter(
            x=times,
            y=values,
            name=state.replace("_", " "),
            stackgroup="states",
            line={"shape": "hv", "width": 1.5, "color": STATE_COLOURS[state]},
        )
    made.update_yaxes(rangemode="tozero")
    return made


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    timed = frame[frame["ts"].notna()]
    if timed.empty:
        every = count_text(frame["all_partitions"].iloc[0], "partition")
        return [ReportVerdict("info", f"Replication: no change of {every} has a valid time.")]
    most = int(timed["not_whole"].max())
    width = float(timed["bucket_ms"].iloc[0]) / 1000
    span = seconds_text((timed["ts"].max() - timed["ts"].min()).total_seconds() + width)
    under = f"at most {count_text(most, 'partition')} at once under-replicated, or worse off"
    text = f"the log covers {span}; {under if most else 'no partition was under-replicated'}"
    return [
        ReportVerdict("info", f"Replication: {text}."),
        *undated(frame, "changes", "change", "Replication"),
    ]


@analysis(
    number="M5b",
    title="Replication over time",
    question="How many partitions were under-replicated, below their minimum ISR, or offline at each moment?",
    views={
        "partition_history": "topic_id string, partition int, from_ts timestamp, to_ts timestamp, state string"
    },
    needs="partitions in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def replication_timeline(partition_history: DataFrame) -> DataFrame:
    """Returns the number of partitions in each state by time; a bucket without changes repeats the end of the previous
    one.

    Returns:
        ts timestamp (start of its bucket; null: no time, or a time far from all others), bucket_ms int, offline long,
        under_min_isr long, under_replicated long (the largest number at one time in the bucket), not_whole long (the
        largest number in any of the three at one time; if a clock goes back, one may count twice, but never more than
        exist), partitions long, changes long (intervals that began or ended), all_partitions long, worst and last
        structs of the three (when most partitions were in any of them, and at the end of the bucket)
    """
    window = window_of(partition_history, "from_ts")
    return run(in_window(SQL, window), partition_history=partition_history)
