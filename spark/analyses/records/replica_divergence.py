"""D12: do the replicas of a partition hold the same batches at equal offsets, and if not, from which offset on?"""

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
from trimaran.spark.analyses.plots import nothing, pair_matrix, short

ROWS = 500

SQL = f"""
WITH heads AS (
  SELECT topic, partition, broker_id, base_offset, last_offset, leader_epoch, crc FROM {{replica_batches}}
), pairs AS (
  SELECT a.topic, a.partition, a.broker_id AS broker, b.broker_id AS other, a.base_offset,
         a.crc = b.crc AND a.leader_epoch = b.leader_epoch AND a.last_offset = b.last_offset AS same
  FROM heads a JOIN heads b ON a.topic = b.topic AND a.partition = b.partition AND a.base_offset = b.base_offset
                           AND a.broker_id < b.broker_id
), judged AS (
  SELECT topic, partition, broker, other, count(*) AS compared, sum(CASE WHEN same THEN 0 ELSE 1 END) AS different,
         min(CASE WHEN NOT same THEN base_offset END) AS first_different_offset
  FROM pairs GROUP BY 1, 2, 3, 4
), ends AS (
  SELECT topic, partition, broker_id, max(last_offset) + 1 AS end_offset FROM heads GROUP BY 1, 2, 3
)
SELECT j.*, a.end_offset AS end_offset, b.end_offset AS other_end_offset,
       sum(compared) OVER () AS all_compared, sum(CASE WHEN different > 0 THEN 1 ELSE 0 END) OVER () AS all_diverged,
       count(*) OVER () AS all_pairs
FROM judged j JOIN ends a ON a.topic = j.topic AND a.partition = j.partition AND a.broker_id = j.broker
JOIN ends b ON b.topic = j.topic AND b.partition = j.partition AND b.broker_id = j.other
ORDER BY different DESC, j.topic, j.partition, broker, other LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws a matrix of brokers with the number of batches that differ."""
    if frame.empty:
        return nothing("no partition has two replicas here: nothing to compare")
    by_pair = frame.groupby(["broker", "other"])["different"].sum()
    return pair_matrix("broker", ((a, b, n) for (a, b), n in by_pair.items()))


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one = frame.iloc[0]
    if not one["all_diverged"]:
        batches = count_text(one["all_compared"], "batch")
        text = f"no difference in {batches} compared, of {count_text(one['all_pairs'], 'pair')} of replicas"
        return [ReportVerdict("ok", f"Replicas: {text}.")]
    text = (
        f"differences in {one['all_diverged']:,} of {count_text(one['all_pairs'], 'pair')}; {short(one['topic'])}-"
        f"{one['partition']} on brokers {one['broker']} and {one['other']} from offset "
        f"{one['first_different_offset']:.0f} on: one of them has records that others never had, or is damaged"
    )
    return [ReportVerdict("bad", f"Replicas: {text}.")]


@analysis(
    number="D12",
    title="Replica divergence",
    question="Do all replicas of a partition hold the same batches?",
    views={
        "replica_batches": "topic string, partition int, broker_id int, base_offset bigint, last_offset bigint, "
        "leader_epoch int, crc bigint"
    },
    needs="data logs of two replicas of a partition",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def replica_divergence(replica_batches: DataFrame) -> DataFrame:
    """Returns pairs of replicas of each partition, differing pairs first.

    Args:
        replica_batches: level `batches` of `kafka_log` with `replicas=all` and `end=log_end`.

    Returns:
        topic string, partition int, broker int, other int, compared long (batches that begin at the same offset),
        different long (in bytes, length or epoch), first_different_offset long, end_offset long, other_end_offset long,
        all_compared long, all_diverged long, all_pairs long
    """
    return run(SQL, replica_batches=replica_batches)
