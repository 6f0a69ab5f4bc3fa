"""M3: changes of leaders by time, cause, broker and topic."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import nothing, over_time

SHOWN_MAX = 12

SQL = f"""
WITH changes AS (
  SELECT {bucketed("ts")} AS ts, cause, topic, prev_leader FROM {{leader_changes}}
)
SELECT 'time' AS kind, ts, cause, CAST(NULL AS STRING) AS name, :bucket_ms AS bucket_ms, count(*) AS changes
FROM changes GROUP BY ts, cause
UNION ALL
(SELECT 'topic', NULL, NULL, topic, :bucket_ms, count(*) AS changes FROM changes GROUP BY topic
 ORDER BY changes DESC, topic LIMIT {SHOWN_MAX})
UNION ALL
(SELECT 'broker', NULL, NULL, coalesce(CAST(prev_leader AS STRING), 'none'), :bucket_ms, count(*) AS changes
 FROM changes GROUP BY prev_leader ORDER BY changes DESC, prev_leader LIMIT {SHOWN_MAX})
ORDER BY kind, ts, cause, changes DESC
"""


def plot(frame: Rows) -> Figure:
    """Draws stacked bars by cause."""
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return nothing("no leader changed after the partitions were created")
    width = float(shown["bucket_ms"].iloc[0])
    return over_time(shown, "changes", "cause", y_title="leader changes", width_ms=width)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    by_time = frame[frame["kind"] == "time"]
    if by_time.empty:
        return [ReportVerdict("ok", "Leaders: none changed after the partitions were created.")]
    counts = by_time.groupby("cause")["changes"].sum().sort_values(ascending=False)
    told = ", ".join(f"{n:,} × {str(cause).replace('_', ' ')}" for cause, n in counts.items())
    busiest = frame[frame["kind"] == "broker"].iloc[0]
    text = f"{count_text(counts.sum(), 'leader change')}: {told}; most away from broker {busiest['name']}"
    return [
        ReportVerdict("info", f"Leaders: {text}."),
        *undated(by_time, "changes", "change", "Leaders"),
    ]


@analysis(
    number="M3",
    title="Leader changes",
    question="When did leaders change, why, and where?",
    views={"leader_changes": "ts timestamp, topic string, prev_leader int, cause string"},
    needs="changes of leaders",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def leadership_churn(leader_changes: DataFrame) -> DataFrame:
    """Returns changes of leaders after the creation of partitions, by time and cause, and the topics and brokers with
    the most changes.

    Returns:
        kind string (time, topic, broker), ts timestamp (start of its bucket; null: no time, or a time far from all
        others), cause string, name string (topic, or the previous leader), bucket_ms int, changes long
    """
    return run(in_window(SQL, window_of(leader_changes, "ts")), leader_changes=leader_changes)
