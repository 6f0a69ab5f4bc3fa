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
SELECT topic, partition, sum(record_count) AS records, sum(batch_bytes) AS bytes,
       sum(record_count) / avg(sum(record_count)) OVER (PARTITION BY topic) AS to_mean
FROM {batches}
GROUP BY topic, partition
ORDER BY topic, partition
"""


def partition_skew(batches: DataFrame) -> DataFrame:
    """One row for each partition that holds records.

    Returns:
        topic string, partition int, records long, bytes long, to_mean double (its records over the mean of its topic)
    """
    return batches.sparkSession.sql(SQL, batches=batches)


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


def judge(frame: pd.DataFrame) -> list[Verdict]:
    if frame.empty:
        return []
    worst = frame.loc[frame["to_mean"].idxmax()]
    text = f"Skew: {worst['topic']}-{worst['partition']} holds {worst['to_mean']:.2f} × the mean of its topic"
    return [Verdict("ok" if worst["to_mean"] <= SKEW_MAX else "warn", text + ", the most of all.")]


ANALYSIS = Analysis(
    name="partition_skew",
    title="Partition skew",
    question="Are the records spread evenly over the partitions of each topic?",
    view="batches",
    sql=SQL,
    compute=partition_skew,
    plot=plot,
    judge=judge,
)
