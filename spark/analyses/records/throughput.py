"""D1: records and bytes by topic, partition and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Row,
    Rows,
    analysis,
    bytes_text,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import (
    NO_CLOCK,
    PALETTE,
    UTC,
    distinct_labels,
    figure,
    in_order,
    nothing,
    of_all,
    short,
)
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
    from plotly import subplots
else:
    pd = imported_later("pandas")
    subplots = imported_later("plotly.subplots")

TOPICS_SHOWN_MAX = len(PALETTE) - 1  # topics with their own colours; all other topics share one
PARTITIONS_SHOWN_MAX = 40
LINES_HEIGHT = 250  # pixels of the lines above the heat map

SQL = f"""
WITH inside AS (
  SELECT topic, partition, {bucketed("max_timestamp")} AS ts, floor(unix_millis(max_timestamp) / 1000) AS second,
         record_count, batch_bytes FROM {{batches}}
), seconds AS (
  SELECT sum(record_count) AS records FROM inside WHERE ts IS NOT NULL GROUP BY second
), totals AS (
  SELECT sum(record_count) AS all_records, sum(batch_bytes) AS all_bytes, count(DISTINCT topic) AS topics,
         count(DISTINCT topic, partition) AS partitions, (SELECT max(records) FROM seconds) AS peak_records
  FROM inside
), topics AS (
  SELECT topic FROM inside GROUP BY topic ORDER BY sum(record_count) DESC, topic LIMIT {TOPICS_SHOWN_MAX}
), busiest AS (
  SELECT topic, partition FROM inside GROUP BY topic, partition
  ORDER BY sum(record_count) DESC, topic, partition LIMIT {PARTITIONS_SHOWN_MAX}
), by_topic AS (
  SELECT CASE WHEN t.topic IS NULL THEN 'other topics' ELSE i.topic END AS topic, ts, sum(record_count) AS records,
         sum(batch_bytes) AS bytes FROM inside i LEFT JOIN topics t ON t.topic = i.topic GROUP BY 1, 2
), by_partition AS (
  SELECT i.topic, i.partition, ts, sum(record_count) AS records, sum(batch_bytes) AS bytes
  FROM inside i JOIN busiest USING (topic, partition) WHERE ts IS NOT NULL GROUP BY 1, 2, 3
)
SELECT 'topic' AS kind, topic, CAST(NULL AS INT) AS partition, ts, records, bytes, :bucket_ms AS bucket_ms, totals.*
FROM by_topic CROSS JOIN totals
UNION ALL
SELECT 'partition', topic, partition, ts, records, bytes, :bucket_ms, totals.* FROM by_partition CROSS JOIN totals
ORDER BY kind DESC, topic, partition, ts
"""


def plot(frame: Rows) -> Figure:
    """Draws records per second: by topic above, and by partition as a heat map below."""
    if frame.empty:
        return nothing("no records")
    frame = frame[frame["ts"].notna()]
    if frame.empty:
        return nothing(NO_CLOCK)
    width = float(frame["bucket_ms"].iloc[0]) / 1000
    topics = frame[frame["kind"] == "topic"]
    partitions = frame[frame["kind"] == "partition"]
    named = partitions.assign(
        name=partitions["topic"] + "-" + partitions["partition"].astype("Int64").astype(str)
    )
    wide = named.pivot_table(index="name", columns="ts", values="records", aggfunc="sum") / width
    step = pd.Timedelta(seconds=width)
    times = pd.date_range(frame["ts"].min() - step, frame["ts"].max() + step, freq=step)
    wide = wide.reindex(index=sorted(wide.index, key=in_order), columns=times)
    rows_height = max(120, 20 * len(wide))  # plotly omits labels of lower rows
    base = figure(height=LINES_HEIGHT + rows_height + 140)
    made = subplots.make_subplots(
        rows=2,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=30 / (LINES_HEIGHT + rows_height),
        row_heights=[LINES_HEIGHT, rows_height],
        figure=base,
    )
    for topic, rows in topics.groupby("topic", sort=False):
        rate = _filled(rows, width)
        made.add_scatter(x=rate.index, y=rate, name=short(topic), line_shape="hv", row=1, col=1)
    made.add_heatmap(
        x=[*times, times[-1] + step],  # the times are edges: a cell begins at its time
        y=distinct_labels(list(wide.index)),
        z=wide.to_numpy(),
        colorscale="Blues",
        zmin=0,
        zmax=wide.max(axis=None),  # without this the smallest value would be white
        colorbar={
            "title": "records/s",
            "len": 200,
            "lenmode": "pixels",
            "y": 0,
            "yanchor": "bottom",
        },
        hoverongaps=False,
        row=2,
        col=1,
    )
    made.update_yaxes(
        title_text=f"records/s, mean of {seconds_text(width)}", rangemode="tozero", row=1, col=1
    )
    made.update_yaxes(type="category", autorange="reversed", automargin=True, row=2, col=1)
    title = UTC + of_all(len(wide), int(frame["partitions"].iloc[0]), "partitions")
    made.update_xaxes(title_text=title, row=2, col=1)
    made.update_layout(showlegend=True)
    return made


def _filled(rows: Rows, width: float) -> Row:
    """Returns records per second, with zeros for buckets without records."""
    series = rows.groupby("ts")["records"].sum() / width
    step = pd.Timedelta(seconds=width)
    every = pd.date_range(series.index.min() - step, series.index.max() + step, freq=step)
    return series.reindex(every, fill_value=0)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one, topics = frame.iloc[0], frame[frame["kind"] == "topic"]
    text = (
        f"{count_text(one['all_records'], 'record')} ({bytes_text(float(one['all_bytes']))} stored) in "
        f"{count_text(one['partitions'], 'partition')} of {count_text(one['topics'], 'topic')}"
    )
    text += _over_time(topics[topics["ts"].notna()], float(one["bucket_ms"]) / 1000)
    return [
        ReportVerdict("info", f"Throughput: {text}."),
        *undated(topics, "records", "record", "Throughput"),
    ]


def _over_time(topics: Rows, width: float) -> str:
    """Returns the duration and the rate, if there is more than one bucket."""
    if topics.empty:
        return ""
    if topics["ts"].nunique() == 1:
        return f"; their times lie within {seconds_text(width)}"
    span = (topics["ts"].max() - topics["ts"].min()).total_seconds() + width
    peak = count_text(topics["peak_records"].iloc[0], "record")
    return f" over {seconds_text(span)}; {peak} in the busiest second"


@analysis(
    number="D1",
    title="Throughput",
    question="How much was written, where and when?",
    views={
        "batches": "topic string, partition int, record_count int, batch_bytes int, max_timestamp timestamp"
    },
    needs="records up to the high watermark",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def throughput(batches: DataFrame) -> DataFrame:
    """Returns bytes and records by time for the largest topics and the busiest partitions; times are those of batches.

    Returns:
        kind string (topic, partition), topic string, partition int, ts timestamp (start of its bucket; topic: null for
        no time or a time far from all others), records long, bytes long (as stored: compressed, with headers),
        bucket_ms int, and over all topics: all_records long, all_bytes long, topics long, partitions long, peak_records
        long (of the busiest second by the clock of batches; null: no time)
    """
    return run(in_window(SQL, window_of(batches, "max_timestamp")), batches=batches)
