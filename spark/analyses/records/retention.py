"""D13: the results of retention and compaction: age and size of segments, and offsets that compaction removed."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    bytes_text,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.plots import bars, nothing, short

ROWS = 1000
DIRTY_MIN = 0.5  # log.cleaner.min.cleanable.ratio

SQL = f"""
WITH told AS (
  SELECT *, next_offset - base_offset AS offsets,
         CASE WHEN min_timestamp >= '1970-01-01' THEN min_timestamp END AS first_ts,
         CASE WHEN max_timestamp >= '1970-01-01' THEN max_timestamp END AS last_ts FROM {{segments}}
), topics AS (
  SELECT topic, count(*) AS segments, count(DISTINCT partition, broker_id) AS replicas, sum(size_bytes) AS bytes,
         sum(records) AS records, sum(missing_offsets) AS missing, sum(offsets) AS offsets,
         min(first_ts) AS oldest_ts, max(last_ts) AS newest_ts, max(is_cleaned) AS compacted,
         sum(CASE WHEN is_cleaned THEN 0 WHEN is_active THEN 0 ELSE size_bytes END) AS dirty_bytes,
         sum(CASE WHEN is_active THEN 0 ELSE size_bytes END) AS closed_bytes,
         max(size_bytes) AS largest_segment
  FROM told GROUP BY topic
)
SELECT topic, segments, replicas, bytes, records, oldest_ts, newest_ts,
       (unix_millis(newest_ts) - unix_millis(oldest_ts)) / 1000D AS kept_seconds, compacted,
       missing / nullif(offsets, 0) AS compacted_share,
       CASE WHEN compacted THEN dirty_bytes / nullif(closed_bytes, 0) END AS dirty_ratio, largest_segment,
       sum(bytes) OVER () AS all_bytes, sum(segments) OVER () AS all_segments, count(*) OVER () AS all_topics
FROM topics ORDER BY bytes DESC, topic LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws bytes by topic."""
    if frame.empty:
        return nothing("no segment")
    hover = [
        f"{t}: {bytes_text(float(b))} in {s:,} segments, {seconds_text(float(k)) if k == k else 'no times'}"
        for t, b, s, k in zip(
            frame["topic"], frame["bytes"], frame["segments"], frame["kept_seconds"], strict=True
        )
    ]
    series = {"MiB": frame["bytes"] / (1 << 20)}
    return bars(list(frame["topic"]), series, x_title="MiB on all replicas", hover=hover)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one = frame.iloc[0]
    text = (
        f"{bytes_text(float(one['all_bytes']))} in {count_text(one['all_segments'], 'segment')} of "
        f"{count_text(one['all_topics'], 'topic')}; {short(one['topic'])} largest, {bytes_text(float(one['bytes']))}"
    )
    verdicts = [ReportVerdict("info", f"Stored: {text}.")]
    compacted = frame[frame["compacted"] == True]  # noqa: E712 - null is not true
    if len(compacted):
        best = compacted.loc[compacted["compacted_share"].fillna(0).idxmax()]
        text = f"took {100 * best['compacted_share']:.3g} % of the offsets of {short(best['topic'])}, the most"
        verdicts.append(ReportVerdict("info", f"Compaction: {text}."))
        dirty = compacted[compacted["dirty_ratio"] > DIRTY_MIN]
        if len(dirty):
            worst = dirty.loc[dirty["dirty_ratio"].idxmax()]
            text = f"behind in {count_text(len(dirty), 'topic')}; {100 * worst['dirty_ratio']:.3g} % of "
            verdicts.append(
                ReportVerdict("warn", f"Compaction: {text}{short(worst['topic'])} not cleaned.")
            )
    return verdicts


@analysis(
    number="D13",
    title="Retention and compaction",
    question="How much is stored, how far back, and does compaction keep up?",
    views={
        "segments": "topic string, partition int, broker_id int, base_offset bigint, next_offset bigint, "
        "size_bytes bigint, records bigint, missing_offsets bigint, min_timestamp timestamp, max_timestamp timestamp, "
        "is_active boolean, is_cleaned boolean"
    },
    needs="segments of data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def retention(segments: DataFrame) -> DataFrame:
    """Returns the stored data of each topic, the largest first.

    Returns:
        topic string, segments long, replicas long, bytes long, records long, oldest_ts timestamp, newest_ts timestamp,
        kept_seconds double (between both), compacted boolean (the cleaner has run), compacted_share double (offsets
        without a record), dirty_ratio double (bytes of closed segments not cleaned yet; null: not compacted),
        largest_segment long, all_bytes long, all_segments long, all_topics long
    """
    return run(SQL, segments=segments)
