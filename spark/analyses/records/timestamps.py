"""D6: wrong timestamps: in the future, far in the past, missing, or out of order."""

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
from trimaran.spark.analyses.plots import AMBER, GREY, ORANGE, RED, bars, nothing, short

PAST_MS = 946_684_800_000  # 2000-01-01: before Kafka existed
FUTURE_MS = 3_600_000  # a time further ahead of this machine's clock is in the future
LATE_MS = 60_000  # records this far behind earlier ones deserve attention

SQL = f"""
WITH judged AS (
  SELECT topic, partition, base_offset, record_count, unix_millis(max_timestamp) AS ms, timestampType AS kind,
         coalesce(unix_millis(max_timestamp) < 0, false) AS is_none,
         coalesce(unix_millis(max_timestamp) BETWEEN 0 AND {PAST_MS}, false) AS is_past,
         coalesce(unix_millis(max_timestamp) > unix_millis(current_timestamp()) + {FUTURE_MS}, true) AS is_future
  FROM {{batches}}
), followed AS (
  SELECT *, CASE WHEN is_none OR is_past OR is_future THEN NULL ELSE ms END AS good_ms FROM judged
), told AS (
  SELECT *, greatest(coalesce(max(good_ms) OVER (PARTITION BY topic, partition ORDER BY base_offset
           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) - good_ms, 0), 0) AS behind_ms
  FROM followed
)
SELECT topic, sum(record_count) AS records,
       sum(CASE WHEN is_none THEN record_count ELSE 0 END) AS without,
       sum(CASE WHEN is_past THEN record_count ELSE 0 END) AS far_past,
       sum(CASE WHEN is_future THEN record_count ELSE 0 END) AS future,
       sum(CASE WHEN behind_ms > {LATE_MS} THEN record_count ELSE 0 END) AS late,
       max(behind_ms) / 1000D AS late_max_seconds, max(CASE WHEN kind = 1 THEN 1 ELSE 0 END) = 1 AS append_time,
       min(timestamp_millis(ms)) AS first_ts, max(timestamp_millis(ms)) AS last_ts,
       sum(sum(CASE WHEN is_none OR is_past OR is_future THEN record_count ELSE 0 END)) OVER () AS all_broken,
       sum(sum(CASE WHEN behind_ms > {LATE_MS} THEN record_count ELSE 0 END)) OVER () AS all_late
FROM told GROUP BY topic
ORDER BY future + far_past + without DESC, late DESC, topic
"""


def plot(frame: Rows) -> Figure:
    """Draws records with wrong times, by topic."""
    bad = frame[frame[["without", "far_past", "future", "late"]].sum(axis=1) > 0]
    if bad.empty:
        return nothing("no batch has a timestamp out of order, in the future or far in the past")
    series = {
        "in the future": bad["future"],
        "before 2000": bad["far_past"],
        "none": bad["without"],
        "late": bad["late"],
    }
    colours = {"in the future": RED, "before 2000": ORANGE, "none": GREY, "late": AMBER}
    return bars(list(bad["topic"]), series, x_title="records", colours=colours)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    worst, verdicts = frame.iloc[0], []
    if worst["all_broken"]:
        text = (
            f"{count_text(worst['all_broken'], 'record')} in the future, before 2000 or without a time, most in "
            f"{short(worst['topic'])}: retention by time and searches by time go wrong there"
        )
        verdicts.append(ReportVerdict("bad", f"Timestamps: {text}."))
    if worst["all_late"]:
        late = frame.loc[frame["late_max_seconds"].idxmax()]
        text = (
            f"{count_text(worst['all_late'], 'record')} more than a minute behind earlier ones; "
            f"{short(late['topic'])} up to {seconds_text(late['late_max_seconds'])}"
        )
        verdicts.append(ReportVerdict("warn", f"Timestamps out of order: {text}."))
    return verdicts or [
        ReportVerdict("ok", "Timestamps: those of all batches are plausible and in order.")
    ]


@analysis(
    number="D6",
    title="Timestamps",
    question="Are there batches with times in the future, far in the past, or out of order?",
    views={
        "batches": "topic string, partition int, base_offset bigint, record_count int, max_timestamp timestamp, "
        "timestampType int"
    },
    needs="batches in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def timestamps(batches: DataFrame) -> DataFrame:
    """Returns the number of batches with wrong times by topic, the worst topic first.

    Returns:
        topic string, records long, without long (no timestamp), far_past long (before 2000), future long (an hour ahead
        of this machine, or beyond the range of Spark), late long (a minute behind an earlier batch of the partition;
        both times are possible), late_max_seconds double, append_time boolean (brokers set some of the timestamps),
        first_ts timestamp, last_ts timestamp, all_broken long, all_late long (in all topics)
    """
    return run(SQL, batches=batches)
