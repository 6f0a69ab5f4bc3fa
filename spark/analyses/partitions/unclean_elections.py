"""M14: elections of leaders that were not in sync or only eligible (ELR), and partitions that may have lost records."""

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
from trimaran.spark.analyses.plots import nothing, short, table

ROWS = 500

SQL = f"""
WITH marked AS (
  SELECT l.*,
         lag(isr) OVER (PARTITION BY topic_id, partition ORDER BY offset) AS isr_before,
         lag(elr) OVER (PARTITION BY topic_id, partition ORDER BY offset) AS elr_before,
         lag(ts) OVER (PARTITION BY topic_id, partition ORDER BY offset) AS before_ts
  FROM {{leader_changes}} l
), judged AS (
  SELECT *, prev_leader IS NULL AND leader IS NOT NULL AND NOT unclean
            AND coalesce(array_contains(elr_before, leader), false)
            AS from_elr
  FROM marked
)
SELECT ts, topic, partition, prev_leader, leader, leader_epoch, isr_before, isr, cause, unclean, from_elr,
       CASE WHEN prev_leader IS NULL THEN (unix_millis(ts) - unix_millis(before_ts)) / 1000D END AS offline_seconds,
       sum(CASE WHEN unclean THEN 1 ELSE 0 END) OVER () AS unclean_elections,
       sum(CASE WHEN from_elr THEN 1 ELSE 0 END) OVER () AS elr_elections,
       count(*) OVER () AS elections
FROM judged WHERE leader IS NOT NULL
ORDER BY unclean DESC, from_elr DESC, ts DESC, offset DESC LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws the suspicious elections as a table."""
    shown = frame[frame["unclean"] | frame["from_elr"]].sort_values("ts")
    if shown.empty:
        return nothing("every leader was in sync when it was elected")
    heads = {"ts": "when (UTC)", "topic": "topic", "partition": "partition", "leader": "leader"}
    rest = {
        "isr_before": "in sync before",
        "offline_seconds": "offline before, s",
        "unclean": "unclean",
    }
    return table(shown, {**heads, **rest, "from_elr": "from ELR"})


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return [
            ReportVerdict(
                "ok", "Unclean elections: no leader was elected after the partitions' creation."
            )
        ]
    one = frame.iloc[0]
    verdicts = []
    if one["unclean_elections"]:
        suspects = frame[frame["unclean"]][["topic", "partition"]].drop_duplicates()
        first = suspects.iloc[0]
        text = (
            f"{count_text(one['unclean_elections'], 'leader')} elected out of sync: records may be lost in "
            f"{count_text(len(suspects), 'partition')}, {short(first['topic'])}-{first['partition']} among them"
        )
        verdicts.append(ReportVerdict("bad", f"Unclean elections: {text}."))
    else:
        text = f"none among {count_text(one['elections'], 'election')}"
        verdicts.append(ReportVerdict("ok", f"Unclean elections: {text}."))
    if one["elr_elections"]:
        text = f"{count_text(one['elr_elections'], 'leader')} came from the eligible replicas, without loss"
        verdicts.append(ReportVerdict("info", f"Eligible leaders: {text}."))
    return verdicts


@analysis(
    number="M14",
    title="Unclean elections and loss",
    question="Was a leader elected that was not in sync, and which partitions may have lost records?",
    views={
        "leader_changes": "offset bigint, ts timestamp, topic_id string, topic string, partition int, "
        "prev_leader int, leader int, leader_epoch int, isr array<int>, elr array<int>, cause string, unclean boolean"
    },
    needs="changes of leaders",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def unclean_elections(leader_changes: DataFrame) -> DataFrame:
    """Returns elections, unclean ones first: an unclean election loses the records that the new leader does not have.

    Returns:
        ts timestamp, topic string, partition int, prev_leader int, leader int, leader_epoch int, isr_before array<int>,
        isr array<int>, cause string, unclean boolean, from_elr boolean (the leader was eligible, KIP-966: nothing is
        lost), offline_seconds double (before the election; null: there was a leader), unclean_elections long,
        elr_elections long, elections long (the total)
    """
    return run(SQL, leader_changes=leader_changes)
