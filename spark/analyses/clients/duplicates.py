"""D8: batches that a producer wrote twice, and records with equal keys and values."""

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
from trimaran.spark.analyses.plots import BLUE, RED, bars, nothing, short

SQL = """
WITH batches AS (
  SELECT topic, sum(n - 1) AS repeated_batches, sum((n - 1) * records) AS repeated_records FROM (
    SELECT topic, partition, producer_id, producer_epoch, base_sequence, count(*) AS n, max(record_count) AS records
    FROM {batches} WHERE producer_id >= 0 AND base_sequence >= 0 AND NOT is_control GROUP BY 1, 2, 3, 4, 5)
  GROUP BY topic
), contents AS (
  SELECT topic, sum(n) AS records, sum(n - 1) AS same_content FROM (
    SELECT topic, xxhash64(key, value, key IS NULL, value IS NULL) AS hash, count(*) AS n FROM {records} GROUP BY 1, 2)
  GROUP BY topic
)
SELECT topic, c.records, c.same_content, c.same_content / c.records AS share,
       coalesce(b.repeated_batches, 0) AS repeated_batches, coalesce(b.repeated_records, 0) AS repeated_records,
       sum(coalesce(b.repeated_batches, 0)) OVER () AS all_repeated_batches
FROM contents c LEFT JOIN batches b USING (topic)
ORDER BY repeated_batches DESC, same_content DESC, topic
"""


def plot(frame: Rows) -> Figure:
    """Draws the number of duplicated records by topic."""
    shown = frame[(frame["same_content"] > 0) | (frame["repeated_records"] > 0)]
    if shown.empty:
        return nothing("no two records are equal")
    series = {
        "written twice": shown["repeated_records"],
        "same key and value": shown["same_content"],
    }
    colours = {"written twice": RED, "same key and value": BLUE}
    return bars(list(shown["topic"]), series, x_title="records", colours=colours)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one = frame.iloc[0]
    verdicts = []
    if one["all_repeated_batches"]:
        text = (
            f"{count_text(one['all_repeated_batches'], 'batch')} twice in a partition with the same producer, "
            f"epoch and sequence, most in {short(one['topic'])}: idempotence failed"
        )
        verdicts.append(ReportVerdict("bad", f"Duplicates: {text}."))
    else:
        verdicts.append(
            ReportVerdict("ok", "Duplicates: no batch was written twice by its producer.")
        )
    most = frame.loc[frame["same_content"].idxmax()]
    if most["same_content"]:
        text = f"{100 * most['share']:.3g} % of {short(most['topic'])} equal an earlier record in key and value"
        verdicts.append(ReportVerdict("info", f"Equal records: {text}."))
    return verdicts


@analysis(
    number="D8",
    title="Duplicates",
    question="Were records written twice?",
    views={
        "batches": "topic string, partition int, producer_id bigint, producer_epoch int, base_sequence int, "
        "record_count int, is_control boolean",
        "records": "key binary, value binary, topic string",
    },
    needs="records in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def duplicates(batches: DataFrame, records: DataFrame) -> DataFrame:
    """Returns the duplicates of each topic, repeated sequences first: these are certain, while equal contents may be
    intended.

    Returns:
        topic string, records long, same_content long (records whose key and value equal those of an earlier record of
        the topic, by a hash of 64 bits), share double (of the records), repeated_batches long (same producer, epoch and
        sequence in a partition), repeated_records long, all_repeated_batches long (in all topics)
    """
    return run(SQL, batches=batches, records=records)
