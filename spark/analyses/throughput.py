"""D1: records and bytes by topic, partition and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import Analysis, Verdict, bytes_text, figure, seconds_text
from spark.analyses.buckets import bucket_ms, literal

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

TOPICS_SHOWN_MAX = 10
PARTITIONS_SHOWN_MAX = 60

SQL = """
SELECT topic, partition, timestamp_millis(floor(unix_millis(max_timestamp) / :bucket_ms) * :bucket_ms) AS ts,
       :bucket_ms / 1000.0D AS bucket_seconds, sum(record_count) AS records, sum(batch_bytes) AS bytes,
        count(*) AS batches
FROM {batches}
GROUP BY ALL
ORDER BY topic, partition, ts
"""


def throughput(batches: DataFrame) -> DataFrame:
    """What was written, by partition and time; times are those of the batches' latest record.

    Returns:
        topic string, partition int, ts timestamp (start of its bucket), bucket_seconds double, records long,
        bytes long (as stored: compressed, with headers), batches long
    """
    width = bucket_ms(batches, "max_timestamp")
    return batches.sparkSession.sql(literal(SQL, bucket_ms=width), batches=batches)


def plot(frame: pd.DataFrame) -> go.Figure:
    """Above, records a second by topic; below, by partition as a heat map."""
    from plotly.subplots import make_subplots

    top = frame.groupby("topic")["records"].sum().nlargest(TOPICS_SHOWN_MAX).index
    partitions = _wide(frame)
    made = make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.08,
        row_heights=[0.45, 0.55],
        figure=figure(height=460 + 10 * len(partitions.columns)),
    )
    for topic in top:
        series = _filled(frame[frame["topic"] == topic])
        made.add_scatter(x=series.index, y=series, name=topic, line_shape="hv", row=1, col=1)
    made.add_heatmap(
        x=partitions.index,
        y=list(partitions.columns),
        z=partitions.T,
        colorscale="Blues",
        colorbar={"title": "records/s", "len": 0.5, "y": 0.25},
        row=2,
        col=1,
    )
    made.update_yaxes(title_text="records/s", rangemode="tozero", row=1, col=1)
    made.update_xaxes(title_text="UTC", row=2, col=1)
    made.update_layout(margin_l=160, showlegend=True)
    return made


def _filled(rows: pd.DataFrame) -> pd.Series[float]:
    """Records a second, with zeros where nothing was written."""
    import pandas as pd

    if rows.empty:
        return pd.Series(dtype=float)
    width = float(rows["bucket_seconds"].iloc[0])
    series = rows.groupby("ts")["records"].sum() / width
    step = pd.Timedelta(seconds=width)
    every = pd.date_range(series.index.min() - step, series.index.max() + step, freq=step)
    return series.reindex(every, fill_value=0)


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Time × partition, the busiest partitions only."""
    import pandas as pd

    if frame.empty:
        return pd.DataFrame()
    named = frame.assign(name=frame["topic"] + "-" + frame["partition"].astype(str))
    busiest = named.groupby("name")["records"].sum().nlargest(PARTITIONS_SHOWN_MAX).index
    named = named[named["name"].isin(busiest)]
    width = float(frame["bucket_seconds"].iloc[0])
    wide = named.pivot_table(index="ts", columns="name", values="records", aggfunc="sum") / width
    every = pd.date_range(wide.index.min(), wide.index.max(), freq=pd.Timedelta(seconds=width))
    return wide.reindex(every)


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    if frame.empty:
        return [Verdict("info", "Throughput: no records up to the high watermark.")]
    width = float(frame["bucket_seconds"].iloc[0])
    peak = float((frame.groupby("ts")["records"].sum() / width).max())
    span = (frame["ts"].max() - frame["ts"].min()).total_seconds() + width
    partitions = len(frame[["topic", "partition"]].drop_duplicates())
    text = (
        f"Throughput: {frame['records'].sum():,} records ({bytes_text(float(frame['bytes'].sum()))} stored) in "
        f"{partitions} "
        f"partitions (topics: {frame['topic'].nunique()}) over {seconds_text(span)}; peak {peak:,.0f} records/s."
    )
    return [Verdict("info", text)]


ANALYSIS = Analysis(
    name="throughput",
    title="Throughput",
    question="How much was written, where and when?",
    view="batches",
    sql=SQL,
    compute=throughput,
    plot=plot,
    evaluate=evaluate,
)
