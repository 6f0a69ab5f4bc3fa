"""D14: how large records are, how many have no key or no value, and which headers they carry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import (
    Analysis,
    Verdict,
    bytes_text,
    run,
)
from spark.analyses.plots import (
    figure,
    nothing,
    short,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

ROWS = 2000
LARGE = 1 << 20  # max.message.bytes by default

SQL = f"""
WITH sized AS (
  SELECT topic, coalesce(length(key), 0) + coalesce(length(value), 0) AS bytes, key IS NULL AS no_key,
         value IS NULL AS no_value, coalesce(size(headers), 0) AS headers FROM {{records}}
), topics AS (
  SELECT topic, count(*) AS records, sum(bytes) AS bytes, percentile_approx(bytes, array(0.5, 0.99)) AS p,
         max(bytes) AS largest,
         avg(CASE WHEN no_key THEN 1D ELSE 0D END) AS no_key_share,
         avg(CASE WHEN no_value THEN 1D ELSE 0D END) AS no_value_share,
         avg(CASE WHEN headers > 0 THEN 1D ELSE 0D END) AS headers_share
  FROM sized GROUP BY topic
), largest AS (
  SELECT * FROM topics ORDER BY bytes DESC, topic LIMIT 12
)
SELECT 'topic' AS kind, topic, records, bytes, p[0] AS p50, p[1] AS p99, largest, no_key_share, no_value_share,
       headers_share, CAST(NULL AS BIGINT) AS bytes_from
FROM (SELECT * FROM topics ORDER BY bytes DESC, topic LIMIT {ROWS})
UNION ALL
SELECT 'size', s.topic, count(*), sum(s.bytes), NULL, NULL, NULL, NULL, NULL, NULL,
       CAST(pow(2, floor(log2(greatest(s.bytes, 1)))) AS BIGINT) AS bytes_from
FROM sized s JOIN largest l ON l.topic = s.topic GROUP BY s.topic, bytes_from
ORDER BY kind DESC, bytes DESC, topic, bytes_from
"""


def record_sizes(records: DataFrame) -> DataFrame:
    """Sizes of keys and values together, by topic, and how they are spread in the largest topics.

    Returns:
        kind string (topic, size), topic string, records long, bytes long, p50 int, p99 int, largest int, no_key_share
        double, no_value_share double (tombstones), headers_share double (records with any), bytes_from long (size: to
        twice that, exclusive)
    """
    return run(SQL, records=records)


def plot(frame: pd.DataFrame) -> go.Figure:
    """Which share of a topic's records is at most so large."""
    shown = frame[frame["kind"] == "size"]
    if shown.empty:
        return nothing("no records")
    made = figure(
        height=380, xaxis_title="bytes of key and value", yaxis_title="% of the records are smaller"
    )
    for topic, rows in shown.groupby("topic", sort=False):
        rows = rows.sort_values("bytes_from")
        share = 100 * rows["records"].cumsum() / rows["records"].sum()
        made.add_scatter(
            x=2 * rows["bytes_from"],
            y=share,
            name=short(topic),
            line_shape="hv",
            mode="lines+markers",
        )
    made.update_xaxes(type="log")
    made.update_layout(showlegend=True)
    return made


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    topics = frame[frame["kind"] == "topic"]
    if topics.empty:
        return []
    largest = topics.loc[topics["largest"].idxmax()]
    total = topics["records"].sum()
    mean = topics["bytes"].sum() / max(total, 1)
    text = (
        f"{bytes_text(float(mean))} on average; the largest, {bytes_text(float(largest['largest']))}, in "
        f"{short(largest['topic'])} (half of its records have at most {bytes_text(float(largest['p50']))})"
    )
    verdicts = [Verdict("warn" if largest["largest"] > LARGE else "info", f"Records: {text}.")]
    shares = (
        topics[["no_key_share", "no_value_share", "headers_share"]].mul(topics["records"], axis=0)
    ).sum() / total
    text = (
        f"{100 * shares['no_key_share']:.3g} % without a key, {100 * shares['no_value_share']:.3g} % without a value, "
        f"{100 * shares['headers_share']:.3g} % with headers"
    )
    return [*verdicts, Verdict("info", f"Records: {text}.")]


ANALYSIS = Analysis(
    number="D14",
    name="record_sizes",
    title="Record sizes",
    question="How large are records, and what do they lack or carry?",
    views={
        "records": "key binary, value binary, topic string, headers array<struct<key: string, value: binary>>"
    },
    needs="records in data logs",
    sql=SQL,
    compute=record_sizes,
    plot=plot,
    evaluate=evaluate,
)
