"""D12: do the replicas of a partition hold the same records at equal offsets, and if not, from which offset on?

Each replica is compacted by its own cleaner, which compresses batches again: below the cleaner's offset of either
replica, records are compared; above it, batches by their CRC. Source: Kafka's `Cleaner`.
"""

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

# A record must be in both replicas, unless the cleaner of the other one may have removed it (`removable_at` is the
# least cleaner offset that allows it): tombstones, markers, aborted records, records without a key, and those that a
# later record of the same key replaces.
SQL = f"""
WITH heads AS (
  SELECT topic, partition, broker_id, base_offset, last_offset, leader_epoch, crc, log_start_offset, cleaner_offset
  FROM {{replica_batches}}
), copies AS (
  SELECT topic, partition, broker_id, max(last_offset) + 1 AS end_offset, max(log_start_offset) AS start_offset,
         max(coalesce(cleaner_offset, 0)) AS cleaned
  FROM heads GROUP BY 1, 2, 3
), pairs AS (
  SELECT a.topic, a.partition, a.broker_id AS broker, b.broker_id AS other, a.end_offset AS end_offset,
         b.end_offset AS other_end_offset, a.cleaned AS broker_cleaned, b.cleaned AS other_cleaned,
         greatest(a.cleaned, b.cleaned) AS cleaned, greatest(a.start_offset, b.start_offset) AS begin,
         least(a.end_offset, b.end_offset, greatest(a.cleaned, b.cleaned)) AS records_end
  FROM copies a JOIN copies b ON a.topic = b.topic AND a.partition = b.partition AND a.broker_id < b.broker_id
), by_batch AS (
  SELECT p.topic, p.partition, p.broker, p.other, 1 AS batches, 0 AS records, a.base_offset AS at,
         a.crc = b.crc AND a.leader_epoch = b.leader_epoch AND a.last_offset = b.last_offset AS same
  FROM pairs p
  JOIN heads a ON a.topic = p.topic AND a.partition = p.partition AND a.broker_id = p.broker
  JOIN heads b ON b.topic = p.topic AND b.partition = p.partition AND b.broker_id = p.other
              AND b.base_offset = a.base_offset
  WHERE a.base_offset >= p.cleaned
), followed AS (
  SELECT *, lead(offset) OVER (
           PARTITION BY topic, partition, broker_id, key, control_type IS NULL ORDER BY offset) AS next_of_key,
         min(CASE WHEN control_type IS NOT NULL THEN concat(lpad(CAST(offset AS STRING), 20, '0'), control_type) END)
           OVER (PARTITION BY topic, partition, broker_id, producer_id ORDER BY offset
                 ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS next_marker
  FROM {{compacted_records}}
), kept AS (
  SELECT topic, partition, broker_id, offset, key, value, timestamp, headers, control_type,
         CASE WHEN key IS NULL OR value IS NULL OR control_type IS NOT NULL THEN offset + 1
              WHEN is_transactional AND (next_marker IS NULL OR next_marker LIKE '%ABORT') THEN offset + 1
              ELSE next_of_key + 1 END AS removable_at
  FROM followed
), ours AS (
  SELECT p.broker, p.other, p.other_cleaned, k.* FROM pairs p
  JOIN kept k ON k.topic = p.topic AND k.partition = p.partition AND k.broker_id = p.broker
  WHERE k.offset >= p.begin AND k.offset < p.records_end
), theirs AS (
  SELECT p.broker, p.other, p.broker_cleaned, k.* FROM pairs p
  JOIN kept k ON k.topic = p.topic AND k.partition = p.partition AND k.broker_id = p.other
  WHERE k.offset >= p.begin AND k.offset < p.records_end
), by_record AS (
  SELECT coalesce(o.topic, t.topic) AS topic, coalesce(o.partition, t.partition) AS partition,
         coalesce(o.broker, t.broker) AS broker, coalesce(o.other, t.other) AS other, 0 AS batches, 1 AS records,
         coalesce(o.offset, t.offset) AS at,
         CASE WHEN t.offset IS NULL THEN coalesce(o.other_cleaned >= o.removable_at, false)
              WHEN o.offset IS NULL THEN coalesce(t.broker_cleaned >= t.removable_at, false)
              ELSE o.key <=> t.key AND o.value <=> t.value AND o.timestamp <=> t.timestamp
                   AND o.headers <=> t.headers AND o.control_type <=> t.control_type END AS same
  FROM ours o FULL JOIN theirs t ON o.topic = t.topic AND o.partition = t.partition AND o.broker = t.broker
                                AND o.other = t.other AND o.offset = t.offset
), judged AS (
  SELECT topic, partition, broker, other, sum(batches) AS compared, sum(records) AS compared_records,
         sum(CASE WHEN same THEN 0 ELSE 1 END) AS different,
         min(CASE WHEN NOT same THEN at END) AS first_different_offset
  FROM (SELECT * FROM by_batch UNION ALL SELECT * FROM by_record) GROUP BY 1, 2, 3, 4
)
SELECT j.*, p.end_offset, p.other_end_offset, sum(compared) OVER () AS all_compared,
       sum(compared_records) OVER () AS all_records,
       sum(CASE WHEN different > 0 THEN 1 ELSE 0 END) OVER () AS all_diverged, count(*) OVER () AS all_pairs
FROM judged j JOIN pairs p ON p.topic = j.topic AND p.partition = j.partition AND p.broker = j.broker
                          AND p.other = j.other
ORDER BY different DESC, j.topic, j.partition, j.broker, j.other LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws a matrix of brokers with the number of batches and records that differ."""
    if frame.empty:
        return nothing("no partition has two replicas here: nothing to compare")
    by_pair = frame.groupby(["broker", "other"])["different"].sum()
    return pair_matrix("broker", ((a, b, n) for (a, b), n in by_pair.items()))


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one = frame.iloc[0]
    if not one["all_diverged"]:
        what = count_text(one["all_compared"], "batch")
        if one["all_records"]:
            what += f" and {count_text(one['all_records'], 'compacted record')}"
        text = f"no difference in {what} compared, of {count_text(one['all_pairs'], 'pair')} of replicas"
        return [ReportVerdict("ok", f"Replicas: {text}.")]
    text = (
        f"differences in {one['all_diverged']:,} of {count_text(one['all_pairs'], 'pair')}; {short(one['topic'])}-"
        f"{one['partition']} on brokers {one['broker']} and {one['other']} from offset "
        f"{one['first_different_offset']:.0f} on: one of them has records that the other one never had, or is damaged"
    )
    return [ReportVerdict("bad", f"Replicas: {text}.")]


@analysis(
    number="D12",
    title="Replica divergence",
    question="Do all replicas of a partition hold the same records?",
    views={
        "replica_batches": "topic string, partition int, broker_id int, base_offset bigint, last_offset bigint, "
        "leader_epoch int, crc bigint, log_start_offset bigint, cleaner_offset bigint",
        "compacted_records": "topic string, partition int, broker_id int, offset bigint, key binary, value binary, "
        "timestamp timestamp, headers array<struct<key: string, value: binary>>, is_transactional boolean, "
        "producer_id bigint, control_type string",
    },
    needs="data logs of two replicas of a partition",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def replica_divergence(replica_batches: DataFrame, compacted_records: DataFrame) -> DataFrame:
    """Returns pairs of replicas of each partition, differing pairs first.

    Args:
        replica_batches: level `batches` of `kafka_log` with `replicas=all` and `end=log_end`.
        compacted_records: level `records` with `replicas=all`, `end=cleaner_offset` and control records.

    Returns:
        topic string, partition int, broker int, other int, compared long (batches that begin at the same offset),
        compared_records long (below a cleaner's offset), different long (batches in bytes, length or epoch; records in
        content, or lost), first_different_offset long, end_offset long, other_end_offset long, all_compared long,
        all_records long, all_diverged long, all_pairs long
    """
    return run(SQL, replica_batches=replica_batches, compacted_records=compacted_records)
