"""M5: how long each partition was offline, below its minimum ISR, or under-replicated."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    Level,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.plots import NO_CLOCK, STATE_COLOURS, bars, nothing, short

OUTAGE_SECONDS_BAD = 1.0  # an election takes less time
SLO_PERCENT = 99.9

SQL = """
WITH clock AS (
  SELECT coalesce(sum(seconds), 0) = 0 AS stands_still FROM {partition_history}
), intervals AS (
  SELECT *, to_offset IS NOT NULL AS is_over, stands_still OR coalesce(seconds, 1) > 0 AS lasted
  FROM {partition_history} CROSS JOIN clock
), partitions AS (
  SELECT topic, partition,
         sum(CASE WHEN state != 'deleted' THEN seconds ELSE 0 END) AS seconds,
         sum(CASE WHEN state = 'offline' AND is_over THEN seconds ELSE 0 END) AS offline,
         sum(CASE WHEN state = 'under_min_isr' THEN seconds ELSE 0 END) AS under_min_isr,
         sum(CASE WHEN state = 'under_replicated' THEN seconds ELSE 0 END) AS under_replicated,
         max(state = 'offline' AND is_over AND lasted) AS was_offline,
         max(state = 'under_min_isr' AND lasted) AS was_under_min_isr,
         max(state = 'under_replicated' AND lasted) AS was_under_replicated,
         max(CASE WHEN NOT is_over THEN state END) AS state_at_end,
         sum(CASE WHEN state = 'offline' AND NOT is_over THEN seconds ELSE 0 END) AS offline_at_end,
         max(unclean) AS unclean
  FROM intervals
  GROUP BY topic_id, topic, partition
)
SELECT *, 100 * (1 - (offline + under_min_isr) / nullif(seconds, 0)) AS available_percent,
       count(*) OVER () AS partitions,
       sum(CASE WHEN was_offline THEN 1 ELSE 0 END) OVER () AS were_offline,
       sum(CASE WHEN was_under_min_isr THEN 1 ELSE 0 END) OVER () AS were_under_min_isr,
       max(was_offline OR was_under_min_isr OR was_under_replicated) OVER () AS any_was_not_whole,
       sum(CASE WHEN state_at_end = 'offline' THEN 1 ELSE 0 END) OVER () AS are_offline,
       100 * (1 - sum(offline + under_min_isr) OVER () / nullif(sum(seconds) OVER (), 0)) AS cluster_percent
FROM partitions
ORDER BY offline DESC, under_min_isr DESC, under_replicated DESC, was_offline DESC,
         was_under_min_isr DESC, topic, partition
"""


def plot(frame: Rows) -> Figure:
    """Draws the seconds in the three bad states, stacked, for the worst partitions."""
    bad = frame[(frame["offline"] + frame["under_min_isr"] + frame["under_replicated"]) > 0]
    if bad.empty:
        untold = len(frame) and frame["any_was_not_whole"].iloc[0]
        return nothing(NO_CLOCK if untold else "every partition was whole all the time")
    names = [f"{t}-{p}" for t, p in zip(bad["topic"], bad["partition"], strict=True)]
    states = ("offline", "under_min_isr", "under_replicated")
    series = {state: bad[state] for state in states}
    return bars(names, series, x_title="seconds", colours=STATE_COLOURS)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    verdicts, worst = [], frame.iloc[0]
    total = worst["partitions"]
    if worst["were_offline"]:
        text = f"{worst['were_offline']:,} of {count_text(total, 'partition')} offline for a time"
        level: Level = "bad" if worst["offline"] >= OUTAGE_SECONDS_BAD else "warn"
        verdicts.append(
            ReportVerdict(level, f"Availability: {text}; {_longest(frame, 'offline')}.")
        )
    else:
        text = f"Availability: none of {count_text(total, 'partition')} was offline and came back."
        verdicts.append(ReportVerdict("ok", text))
    percent = worst["cluster_percent"]
    if percent == percent:
        level = "ok" if percent >= SLO_PERCENT else "warn"
        text = f"{percent:.4g} % of the partitions' time with a leader and enough in-sync replicas"
        verdicts.append(ReportVerdict(level, f"Availability: {text}."))
    if worst["were_under_min_isr"]:
        below = count_text(worst["were_under_min_isr"], "partition")
        text = f"{below} below it for a time; {_longest(frame, 'under_min_isr')}"
        verdicts.append(ReportVerdict("warn", f"Minimum ISR: {text}."))
    if worst["are_offline"]:
        text = f"{count_text(worst['are_offline'], 'partition')} without a leader at the end of the log"
        verdicts.append(ReportVerdict("info", f"Availability: {text}: were the brokers shut down?"))
    return verdicts


def _longest(frame: Rows, state: str) -> str:
    """Returns the partition that was in the state for the longest time, and the number of other partitions with the
    same time, since the loss of a broker affects many.
    """
    longest = frame[state].max()
    if not longest > 0:
        return "how long cannot be told: clocks show no time, stand still or are years off"
    as_long = frame[frame[state] == longest]
    first = as_long.iloc[0]
    others = f" and {len(as_long) - 1:,} more" if len(as_long) > 1 else ""
    where = f"{short(first['topic'])}-{first['partition']}{others}"
    return f"longest {where}, {seconds_text(float(longest))}"


@analysis(
    number="M5",
    title="Partition availability",
    question="How long was each partition offline, below its minimum ISR, or under-replicated?",
    views={
        "partition_history": "topic_id string, topic string, partition int, to_offset bigint, seconds double, "
        "state string, unclean boolean"
    },
    needs="partitions in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def partition_availability(partition_history: DataFrame) -> DataFrame:
    """Returns one row for each partition that ever existed, the worst first; the last columns are totals.

    Returns:
        topic string, partition int, seconds double (its time in the log), offline double, under_min_isr double,
        under_replicated double (seconds in the state, if clocks are right; offline counts only if the partition was
        online again later, since at the end of the log the brokers may have been shut down), was_offline boolean,
        was_under_min_isr boolean, was_under_replicated boolean (all independent of clocks), state_at_end string (null:
        deleted), offline_at_end double, unclean boolean, available_percent double (neither offline nor below the
        minimum ISR), partitions long, were_offline long, were_under_min_isr long, any_was_not_whole boolean,
        are_offline long, cluster_percent double
    """
    return run(SQL, partition_history=partition_history)
