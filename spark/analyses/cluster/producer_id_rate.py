"""M17: the rate at which blocks of producer ids are allocated: each client that starts takes an id."""

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

BLOCK = 1000  # ids in one block
MANY = 10  # blocks that a start of brokers and clients may take
BLOCKS_PER_HOUR_MAX = 20

SQL = f"""
WITH blocks AS (
  SELECT {bucketed("timestamp")} AS ts, timestamp, get_json_object(payload, '$.broker_id') AS broker,
         CAST(get_json_object(payload, '$.next_producer_id') AS BIGINT) AS next_id
  FROM {{metadata_records}}
  WHERE type = 'ProducerIdsRecord' AND source = 'log'
)
SELECT ts, broker, :bucket_ms AS bucket_ms, count(*) AS blocks, max(next_id) AS next_id,
       min(timestamp) AS first_ts, max(timestamp) AS last_ts
FROM blocks GROUP BY ts, broker ORDER BY ts, broker
"""


def plot(frame: Rows) -> Figure:
    """Draws blocks by time and broker."""
    if frame.empty:
        return nothing("no producer id was handed out")
    named = frame.assign(name="broker " + frame["broker"].astype(str))
    width = float(frame["bucket_ms"].iloc[0])
    return over_time(named, "blocks", "name", y_title="blocks of ids", width_ms=width)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    blocks = int(frame["blocks"].sum())
    timed = frame[frame["ts"].notna()]
    rate = (timed["blocks"].sum() - 1) / (_hours(timed) or float("nan"))
    text = f"{count_text(blocks, 'block')} of {BLOCK:,} ids; the next free id is {frame['next_id'].max():,}"
    fast = blocks > MANY and rate > BLOCKS_PER_HOUR_MAX
    if fast:
        text += f"; {rate:.3g} blocks an hour: clients restart all the time"
    return [
        ReportVerdict("warn" if fast else "info", f"Producer ids: {text}."),
        *undated(frame, "blocks", "block", "Producer ids"),
    ]


def _hours(timed: Rows) -> float:
    """Returns the hours from the first block to the last."""
    return float((timed["last_ts"].max() - timed["first_ts"].min()).total_seconds() / 3600)


@analysis(
    number="M17",
    title="Producer id rate",
    question="How fast are producer ids handed out: do clients restart all the time?",
    views={"metadata_records": "source string, timestamp timestamp, type string, payload string"},
    needs="producer ids handed out",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def producer_id_rate(metadata_records: DataFrame) -> DataFrame:
    """Returns blocks of producer ids by time and by the broker that requested them.

    Returns:
        ts timestamp (start of its bucket; null: no time, or a time far from all others), broker string, bucket_ms int,
        blocks long, next_id long (the next free id), first_ts timestamp, last_ts timestamp
    """
    window = window_of(metadata_records, "timestamp")
    return run(in_window(SQL, window), metadata_records=metadata_records)
