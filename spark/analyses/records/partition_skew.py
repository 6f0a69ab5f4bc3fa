"""D2: the distribution of records over the partitions of a topic."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import DataFrame, Figure, ReportVerdict, Rows, analysis, run
from trimaran.spark.analyses.plots import GREY, figure, nothing, short

SKEW_MAX = 2.0  # busiest partition divided by the mean: above this one broker has most of the work

SQL = """
WITH held AS (
  SELECT topic, partition, sum(record_count) AS records, sum(batch_bytes) AS bytes
  FROM {batches} GROUP BY topic, partition
), there AS (
  SELECT topic, partition FROM {partition_history}
  WHERE to_ts IS NULL AND state != 'deleted' AND topic IN (SELECT topic FROM held)
  UNION
  SELECT topic, partition FROM held
), ranked AS (
  SELECT topic, partition, coalesce(records, 0) AS records, coalesce(bytes, 0) AS bytes,
         row_number() OVER (PARTITION BY topic ORDER BY coalesce(records, 0)) AS rank
  FROM there LEFT JOIN held USING (topic, partition)
)
SELECT topic, partition, records, bytes,
       records / avg(records) OVER t AS to_mean,
       2 * sum(rank * records) OVER t / (count(*) OVER t * sum(records) OVER t)
         - (count(*) OVER t + 1) / count(*) OVER t AS gini,
       count(*) OVER t AS partitions, sum(CASE WHEN records = 0 THEN 1 ELSE 0 END) OVER t AS empty
FROM ranked WINDOW t AS (PARTITION BY topic)
ORDER BY to_mean DESC, records DESC, topic, partition
"""
# Partitions are numbered without gaps; only the metadata log has the partitions above the last one with records.
WITHOUT_METADATA_SQL = """
SELECT topic, CAST(number AS INT) AS partition, CAST(NULL AS timestamp) AS to_ts, 'ok' AS state
FROM (SELECT topic, explode(sequence(0, max(partition))) AS number FROM {batches} GROUP BY topic)
"""


def plot(frame: Rows) -> Figure:
    """Draws the Lorenz curves of the most skewed topics; the diagonal is a perfectly even distribution."""
    if frame.empty:
        return nothing("no records")
    made = figure(height=420, xaxis_title="share of partitions", yaxis_title="share of records")
    made.add_scatter(x=[0, 1], y=[0, 1], name="even", line={"dash": "dot", "color": GREY})
    worst = frame.groupby("topic")["gini"].first().nlargest(8).index
    for topic in worst:
        records = frame[frame["topic"] == topic]["records"].sort_values().cumsum()
        n = len(records)
        made.add_scatter(
            x=[i / n for i in range(n + 1)],
            y=[0.0, *(records / max(records.iloc[-1], 1))],
            name=short(topic),
        )
    made.update_layout(showlegend=True)
    return made


def evaluate(frame: Rows) -> list[ReportVerdict]:
    """Judges only users' topics: internal topics have few keys, which fill only some of their partitions by design."""
    frame = frame[~frame["topic"].str.startswith("__")]
    frame = frame[frame["to_mean"].notna()]
    if frame.empty:
        return []
    worst = frame.loc[frame["to_mean"].idxmax()]
    name = f"{short(worst['topic'])}-{worst['partition']}"
    text = f"Skew: {name} holds {worst['to_mean']:.2f} × the mean of its topic, the most of all"
    if empty := int(worst["empty"]):
        text += f"; {empty} of its {worst['partitions']} partitions {'is' if empty == 1 else 'are'} empty"
    return [ReportVerdict("ok" if worst["to_mean"] <= SKEW_MAX else "warn", text + ".")]


@analysis(
    number="D2",
    title="Partition skew",
    question="Are the records spread evenly over the partitions of each topic?",
    views={
        "batches": "topic string, partition int, record_count int, batch_bytes int",
        "partition_history": "topic string, partition int, to_ts timestamp, state string",
    },
    needs="records in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
    optional=frozenset(("partition_history",)),
)
def partition_skew(batches: DataFrame, partition_history: DataFrame | None = None) -> DataFrame:
    """Returns one row for each partition of every topic with records, the most skewed first, including empty
    partitions.

    Args:
        partition_history: the existing partitions; without it, empty ones above the last with records are missed.

    Returns:
        topic string, partition int, records long, bytes long, to_mean double (its records divided by the mean of its
        topic), gini double (of its topic: 0 is even, near 1 is all in one), partitions long, empty long (in its topic)
    """
    if partition_history is None:
        partition_history = run(WITHOUT_METADATA_SQL, batches=batches)
    return run(SQL, batches=batches, partition_history=partition_history)
