"""D14: the sizes of records, and the shares without a key, without a value, and with headers."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    bytes_text,
    run,
)
from trimaran.spark.analyses.plots import figure, line_style, nothing, short

ROWS = 2000
TOPICS_SPREAD = 12  # the number of topics whose sizes are drawn
LARGE = 1 << 20  # max.message.bytes by default

# Records are read once: all figures are derived from the number of records of each size.
SQL = f"""
WITH sizes AS (
  SELECT topic, bytes, count(*) AS n, count_if(no_key) AS no_key, count_if(no_value) AS no_value,
         count_if(headers > 0) AS headers
  FROM (
    SELECT topic, coalesce(length(key), 0) + coalesce(length(value), 0) AS bytes, key IS NULL AS no_key,
           value IS NULL AS no_value, coalesce(size(headers), 0) AS headers FROM {{records}}
  ) GROUP BY topic, bytes
), ranked AS (
  SELECT *, CAST(pow(2, floor(log2(greatest(bytes, 1)))) AS BIGINT) AS bytes_from,
         sum(n) OVER (PARTITION BY topic ORDER BY bytes) AS upto, sum(n) OVER (PARTITION BY topic) AS all
  FROM sizes
), told AS (
  SELECT topic, bytes_from, sum(n) AS records, sum(n * bytes) AS bytes,
         min(bytes) FILTER (WHERE upto >= 0.5 * all) AS p50, min(bytes) FILTER (WHERE upto >= 0.99 * all) AS p99,
         max(bytes) AS largest, sum(no_key) / sum(n) AS no_key_share, sum(no_value) / sum(n) AS no_value_share,
         sum(headers) / sum(n) AS headers_share, grouping(bytes_from) = 1 AS is_topic
  FROM ranked GROUP BY GROUPING SETS ((topic), (topic, bytes_from))
), placed AS (
  SELECT *, dense_rank() OVER (ORDER BY topic_bytes DESC, topic) AS place FROM (
    SELECT *, max(CASE WHEN is_topic THEN bytes END) OVER (PARTITION BY topic) AS topic_bytes FROM told
  )
)
SELECT CASE WHEN is_topic THEN 'topic' ELSE 'size' END AS kind, topic, records, bytes,
       CASE WHEN is_topic THEN p50 END AS p50, CASE WHEN is_topic THEN p99 END AS p99,
       CASE WHEN is_topic THEN largest END AS largest, CASE WHEN is_topic THEN no_key_share END AS no_key_share,
       CASE WHEN is_topic THEN no_value_share END AS no_value_share,
       CASE WHEN is_topic THEN headers_share END AS headers_share, bytes_from
FROM placed WHERE place <= CASE WHEN is_topic THEN {ROWS} ELSE {TOPICS_SPREAD} END
ORDER BY kind DESC, bytes DESC, topic, bytes_from
"""


def plot(frame: Rows) -> Figure:
    """Draws the share of a topic's records up to each size."""
    shown = frame[frame["kind"] == "size"]
    if shown.empty:
        return nothing("no records")
    made = figure(
        height=380, xaxis_title="bytes of key and value", yaxis_title="% of the records are smaller"
    )
    for number, (topic, rows) in enumerate(shown.groupby("topic", sort=False)):
        rows = rows.sort_values("bytes_from")
        share = 100 * rows["records"].cumsum() / rows["records"].sum()
        made.add_scatter(
            x=2 * rows["bytes_from"],
            y=share,
            name=short(topic),
            line={"shape": "hv", **line_style(number)},
            mode="lines+markers",
        )
    made.update_xaxes(type="log")
    made.update_layout(showlegend=True)
    return made


def evaluate(frame: Rows) -> list[ReportVerdict]:
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
    verdicts = [
        ReportVerdict("warn" if largest["largest"] > LARGE else "info", f"Records: {text}.")
    ]
    shares = (
        topics[["no_key_share", "no_value_share", "headers_share"]].mul(topics["records"], axis=0)
    ).sum() / total
    text = (
        f"{100 * shares['no_key_share']:.3g} % without a key, {100 * shares['no_value_share']:.3g} % without a value, "
        f"{100 * shares['headers_share']:.3g} % with headers"
    )
    return [*verdicts, ReportVerdict("info", f"Records: {text}.")]


@analysis(
    number="D14",
    title="Record sizes",
    question="How large are records, and what do they lack or carry?",
    views={
        "records": "key binary, value binary, topic string, headers array<struct<key: string, value: binary>>"
    },
    needs="records in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def record_sizes(records: DataFrame) -> DataFrame:
    """Returns the sizes of keys and values together by topic, and their distribution in the largest topics.

    Returns:
        kind string (topic, size), topic string, records long, bytes long, p50 int, p99 int, largest int, no_key_share
        double, no_value_share double (tombstones), headers_share double (records with headers), bytes_from long (size:
        up to twice that, exclusive)
    """
    return run(SQL, records=records)
