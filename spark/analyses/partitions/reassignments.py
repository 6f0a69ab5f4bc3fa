"""M12: reassignments of partitions between brokers, their durations, and the reassignments still in progress."""

from __future__ import annotations

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
from trimaran.spark.analyses.plots import AMBER, BLUE, ROWS_SHOWN, nothing, spans

ROWS = 500
LONG_SECONDS = 3600.0

SQL = f"""
WITH moves AS (
  SELECT topic_id, topic, partition, event, ts, seconds,
         lead(event) OVER (PARTITION BY topic_id, partition ORDER BY offset) AS next_event,
         lead(ts) OVER (PARTITION BY topic_id, partition ORDER BY offset) AS next_ts,
         lead(seconds) OVER (PARTITION BY topic_id, partition ORDER BY offset) AS next_seconds
  FROM {{topic_history}} WHERE event IN ('reassignment_begun', 'reassignment_ended')
), begun AS (
  SELECT topic, partition, ts AS from_ts, CASE WHEN next_event = 'reassignment_ended' THEN next_ts END AS to_ts,
         CASE WHEN next_event = 'reassignment_ended' THEN next_seconds END AS seconds
  FROM moves WHERE event = 'reassignment_begun'
), log_end AS (
  SELECT max(ts) AS end_ts FROM {{topic_history}}
)
SELECT begun.*, coalesce(to_ts, end_ts) AS shown_to_ts, to_ts IS NULL AS under_way, count(*) OVER () AS moves,
       sum(CASE WHEN to_ts IS NULL THEN 1 ELSE 0 END) OVER () AS still_moving,
       max(seconds) OVER () AS longest_seconds, percentile(seconds, 0.5) OVER () AS median_seconds
FROM begun CROSS JOIN log_end
ORDER BY under_way DESC, seconds DESC, topic, partition LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws the time for which each partition was being moved."""
    if frame.empty:
        return nothing("no partition was moved")
    names = frame["topic"] + "-" + frame["partition"].astype(str)
    state = frame["under_way"].map({True: "under way", False: "done"})
    shown = frame.assign(name=names, state=state).head(ROWS_SHOWN).sort_values("from_ts")
    colours = {"under way": AMBER, "done": BLUE}
    return spans(
        shown, "name", "from_ts", "shown_to_ts", "state", colours=colours, total=len(frame)
    )


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one = frame.iloc[0]
    text = count_text(one["moves"], "partition") + " moved"
    if one["longest_seconds"] == one["longest_seconds"]:
        text += f"; median {seconds_text(one['median_seconds'])}, longest {seconds_text(one['longest_seconds'])}"
    slow = one["longest_seconds"] > LONG_SECONDS
    verdicts = [ReportVerdict("warn" if slow else "info", f"Reassignments: {text}.")]
    if one["still_moving"]:
        text = f"{count_text(one['still_moving'], 'partition')} still in progress at the end of the log"
        verdicts.append(ReportVerdict("warn", f"Reassignments: {text}."))
    return verdicts


@analysis(
    number="M12",
    title="Reassignments",
    question="Which partitions were moved, and how long did it take?",
    views={
        "topic_history": "offset bigint, ts timestamp, event string, topic_id string, topic string, partition int, "
        "seconds double"
    },
    needs="reassignments in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def reassignments(topic_history: DataFrame) -> DataFrame:
    """Returns reassignments of partitions: those in progress first, then the longest.

    Returns:
        topic string, partition int, from_ts timestamp, to_ts timestamp (null: under way), seconds double, shown_to_ts
        timestamp, under_way boolean, moves long (the total), still_moving long, longest_seconds double, median_seconds
        double
    """
    return run(SQL, topic_history=topic_history)
