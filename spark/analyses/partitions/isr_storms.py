"""M4: bursts in which in-sync replicas shrank, pairs that flap, and shrinks without an expand."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    ids_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import heat, nothing, short

FLAPS_MIN = 3  # a replica that leaves the ISR this often is overloaded
STORM_MIN = 10  # shrinks in one bucket
ROWS = 200

SQL = f"""
WITH shrinks AS (
  SELECT offset, ts, topic, partition, cause, explode(removed) AS broker FROM {{isr_changes}}
), expands AS (
  SELECT topic, partition, explode(added) AS broker, offset FROM {{isr_changes}}
), pairs AS (
  SELECT topic, partition, broker, count(*) AS shrinks, max(offset) AS last, max_by(ts, offset) AS last_ts
  FROM shrinks GROUP BY ALL
), backs AS (
  SELECT topic, partition, broker, max(offset) AS last_back FROM expands GROUP BY ALL
), ended AS (
  SELECT p.*, coalesce(last_back < last, true) AS still_out FROM pairs p
  LEFT JOIN backs USING (topic, partition, broker)
)
SELECT 'time' AS kind, {bucketed("ts")} AS ts, broker, CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition,
       cause, :bucket_ms AS bucket_ms, count(*) AS shrinks, CAST(NULL AS BOOLEAN) AS still_out
FROM shrinks GROUP BY ALL
UNION ALL
(SELECT 'pair', last_ts, broker, topic, partition, NULL, :bucket_ms, shrinks, still_out
 FROM ended ORDER BY shrinks DESC, topic, partition LIMIT {ROWS})
UNION ALL
SELECT 'still_out', NULL, broker, NULL, NULL, NULL, :bucket_ms, count(*), true
FROM ended WHERE still_out GROUP BY broker
"""


def plot(frame: Rows) -> Figure:
    """Draws shrinks by broker and time."""
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return nothing("no replica left an ISR")
    named = shown.assign(name="broker " + shown["broker"].astype(str))
    return heat(
        named, "name", "shrinks", title="shrinks", width_ms=float(shown["bucket_ms"].iloc[0])
    )


def evaluate(frame: Rows) -> list[ReportVerdict]:
    by_time, pairs = frame[frame["kind"] == "time"], frame[frame["kind"] == "pair"]
    if by_time.empty:
        return [ReportVerdict("ok", "ISR: no replica left an ISR.")]
    buckets = by_time.groupby("ts")["shrinks"].sum()
    storms = int((buckets >= STORM_MIN).sum())
    text = count_text(by_time["shrinks"].sum(), "shrink")
    if len(buckets):
        width = seconds_text(float(by_time["bucket_ms"].iloc[0]) / 1000)
        text += f", at most {buckets.max():,} within {width}"
    verdicts = [
        ReportVerdict("warn" if storms else "info", f"ISR: {text}."),
        *undated(by_time, "shrinks", "shrink", "ISR"),
    ]
    flapping = pairs[pairs["shrinks"] >= FLAPS_MIN]
    if len(flapping):
        worst = flapping.iloc[0]
        told = f"broker {worst['broker']:.0f} left the ISR of {short(worst['topic'])}-{worst['partition']:.0f}"
        verdicts.append(
            ReportVerdict(
                "warn", f"Flapping replicas: {told} {worst['shrinks']} times, the most of all."
            )
        )
    out = frame[frame["kind"] == "still_out"]
    if len(out):
        brokers = ids_text("broker", out["broker"])
        told = f"{count_text(out['shrinks'].sum(), 'replica')} ({brokers})"
        verdicts.append(ReportVerdict("warn", f"Out of the ISR and not back at the end: {told}."))
    return verdicts


@analysis(
    number="M4",
    title="ISR storms",
    question="When did in-sync replicas shrink in bursts, and which replicas flap?",
    views={
        "isr_changes": "offset bigint, ts timestamp, topic string, partition int, added array<int>, "
        "removed array<int>, cause string"
    },
    needs="changes of in-sync replicas",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def isr_storms(isr_changes: DataFrame) -> DataFrame:
    """Returns shrinks by time and broker, the pairs of partition and broker with the most shrinks, and brokers that are
    still out.

    Returns:
        kind string (time, pair, still_out), ts timestamp (time: start of its bucket, null for no time or a time far
        from all others; pair: the last shrink), broker int, topic string, partition int, cause string, bucket_ms int,
        shrinks long (still_out: partitions), still_out boolean (it did not come back)
    """
    return run(in_window(SQL, window_of(isr_changes, "ts")), isr_changes=isr_changes)
