"""M3: when leaders and in-sync replicas changed, by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import Analysis, Verdict, figure
from spark.analyses.buckets import bucket_ms, literal

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

SQL = """
SELECT timestamp_millis(floor(unix_millis(from_ts) / :bucket_ms) * :bucket_ms) AS ts, cause, :bucket_ms AS bucket_ms,
       count(*) AS changes, count(DISTINCT topic_id, partition) AS partitions
FROM {partition_history}
WHERE cause NOT IN ('create', 'delete', 'snapshot')
GROUP BY ALL
ORDER BY ts, cause
"""


def leadership_churn(partition_history: DataFrame) -> DataFrame:
    """Changes of partitions after their creation, by time and cause.

    Returns:
        ts timestamp (start of its bucket), cause string, bucket_ms int, changes long, partitions long
    """
    width = bucket_ms(partition_history, "from_ts")
    return partition_history.sparkSession.sql(
        literal(SQL, bucket_ms=width), partition_history=partition_history
    )


def plot(frame: pd.DataFrame) -> go.Figure:
    """Stacked bars by cause."""
    made = figure(
        height=300, barmode="stack", yaxis_title="changes", xaxis={"type": "date", "title": "UTC"}
    )
    for cause, rows in frame.groupby("cause"):
        made.add_bar(
            x=rows["ts"],
            y=rows["changes"],
            width=rows["bucket_ms"],
            offset=0,
            name=str(cause).replace("_", " "),
        )
    if frame.empty:
        made.add_annotation(
            text="nothing changed after the partitions were created", showarrow=False
        )
    return made


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    counts = frame.groupby("cause")["changes"].sum()
    told = ", ".join(f"{n} × {cause.replace('_', ' ')}" for cause, n in counts.items())
    return [Verdict("info", f"Changes of partitions: {told or 'none'}.")]


ANALYSIS = Analysis(
    name="leadership_churn",
    title="Leadership and ISR changes",
    question="When did leaders and in-sync replicas change, and why?",
    view="partition_history",
    sql=SQL,
    compute=leadership_churn,
    plot=plot,
    evaluate=evaluate,
)
