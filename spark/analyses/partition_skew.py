"""D2: how evenly records are spread over the partitions of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import Analysis, Verdict, figure

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

SKEW_MAX = (
    2.0  # busiest partition over the mean: more, and one broker and one consumer carry the topic
)
BARS_MAX = 80

SQL = """
WITH held AS (
  SELECT topic, partition, sum(record_count) AS records, sum(batch_bytes) AS bytes
  FROM {batches} GROUP BY topic, partition
), there AS (
  SELECT topic, partition FROM {partition_history}
  WHERE to_ts IS NULL AND state != 'deleted' AND topic IN (SELECT topic FROM held)
  UNION
  SELECT topic, partition FROM held
)
SELECT topic, partition, coalesce(records, 0) AS records, coalesce(bytes, 0) AS bytes,
       coalesce(records, 0) / avg(coalesce(records, 0)) OVER (PARTITION BY topic) AS to_mean
FROM there LEFT JOIN held USING (topic, partition)
ORDER BY topic, partition
"""
# Partitions are numbered without gaps; those above the last one with records are known to the metadata log only.
WITHOUT_METADATA_SQL = """
SELECT topic, explode(sequence(0, max(partition))) AS partition, CAST(NULL AS timestamp) AS to_ts, 'ok' AS state
FROM {batches}
GROUP BY topic
"""


def partition_skew(batches: DataFrame, partition_history: DataFrame | None = None) -> DataFrame:
    """One row for each partition of every topic that holds records; empty partitions count.

    Args:
        partition_history: tells which partitions there are; without it empty ones above the last with records are
            missed.

    Returns:
        topic string, partition int, records long, bytes long, to_mean double (its records over the mean of its topic)
    """
    spark = batches.sparkSession
    if partition_history is None:
        partition_history = spark.sql(WITHOUT_METADATA_SQL, batches=batches)
    return spark.sql(SQL, batches=batches, partition_history=partition_history)


def plot(frame: pd.DataFrame) -> go.Figure:
    """Records by partition, a colour for each topic."""
    shown = frame.nlargest(BARS_MAX, "records").sort_values(["topic", "partition"])
    made = figure(height=320, yaxis_title="records")
    for topic, rows in shown.groupby("topic"):
        made.add_bar(
            x=[f"{topic}-{p}" for p in rows["partition"]],
            y=rows["records"],
            name=str(topic),
            customdata=rows["to_mean"],
            hovertemplate="%{x}: %{y:,} records, %{customdata:.2f} × the mean<extra></extra>",
        )
    return made


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    """Of the users' topics: the keys of internal ones are few, and fill few of their partitions by design."""
    frame = frame[~frame["topic"].str.startswith("__")]
    frame = frame[frame["records"].groupby(frame["topic"]).transform("sum") > 0]
    if frame.empty:
        return []
    worst = frame.loc[frame["to_mean"].idxmax()]
    name = f"{worst['topic']}-{worst['partition']}"
    text = f"Skew: {name} holds {worst['to_mean']:.2f} × the mean of its topic, the most of all"
    records = frame.loc[frame["topic"] == worst["topic"], "records"]
    if empty := int((records == 0).sum()):
        text += f"; {empty} of its {len(records)} partitions {'is' if empty == 1 else 'are'} empty"
    return [Verdict("ok" if worst["to_mean"] <= SKEW_MAX else "warn", text + ".")]


ANALYSIS = Analysis(
    name="partition_skew",
    title="Partition skew",
    question="Are the records spread evenly over the partitions of each topic?",
    view="batches",
    also="partition_history",
    sql=SQL,
    compute=partition_skew,
    plot=plot,
    evaluate=evaluate,
)
