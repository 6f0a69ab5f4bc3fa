"""M11: creations and deletions of topics, short-lived topics, and added partitions."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import BLUE, GREEN, RED, nothing, over_time, short

SHORT_SECONDS = 3600.0

SQL = f"""
WITH events AS (
  SELECT {bucketed("ts")} AS ts, event, topic, seconds, partitions, prev_partitions FROM {{topic_history}}
  WHERE event IN ('created', 'deleted', 'partitions_added')
)
SELECT 'time' AS kind, ts, event, :bucket_ms AS bucket_ms, count(*) AS events, CAST(NULL AS DOUBLE) AS seconds,
       sum(CASE WHEN event = 'deleted' AND seconds < {SHORT_SECONDS} THEN 1 ELSE 0 END) AS short_lived,
       sum(CASE WHEN event = 'deleted' THEN 0 ELSE partitions - coalesce(prev_partitions, 0) END) AS new_partitions,
       CAST(NULL AS STRING) AS topic
FROM events GROUP BY ts, event
UNION ALL
(SELECT 'short', ts, event, :bucket_ms, 1, seconds, 1, 0, topic FROM events
 WHERE event = 'deleted' AND seconds < {SHORT_SECONDS} ORDER BY seconds, topic LIMIT 50)
"""


def plot(frame: Rows) -> Figure:
    """Draws creations, added partitions and deletions by time."""
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return nothing("no topic was created or deleted")
    colours = {"created": GREEN, "deleted": RED, "partitions_added": BLUE}
    width = float(shown["bucket_ms"].iloc[0])
    return over_time(shown, "events", "event", y_title="topics", width_ms=width, colours=colours)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return []
    counts = shown.groupby("event")["events"].sum()
    created, deleted = int(counts.get("created", 0)), int(counts.get("deleted", 0))
    text = (
        f"{count_text(created, 'topic')} created, {deleted:,} deleted, "
        f"{count_text(shown['new_partitions'].sum(), 'partition')} added"
    )
    verdicts = [
        ReportVerdict("info", f"Topics: {text}."),
        *undated(shown, "events", "event", "Topics"),
    ]
    if brief := int(shown["short_lived"].sum()):
        first = frame[frame["kind"] == "short"].sort_values("seconds").iloc[0]
        text = (
            f"{count_text(brief, 'topic')} lived less than an hour; {short(first['topic'])} lived "
        )
        verdicts.append(
            ReportVerdict("info", f"Short-lived: {text}for {seconds_text(first['seconds'])}.")
        )
    return verdicts


@analysis(
    number="M11",
    title="Topics created and deleted",
    question="When were topics created, enlarged and deleted, and how long did they live?",
    views={
        "topic_history": "ts timestamp, event string, topic string, partitions int, prev_partitions int, seconds double"
    },
    needs="topics created or deleted in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def topic_lifecycle(topic_history: DataFrame) -> DataFrame:
    """Returns creations, deletions and growth by time, and the topics with the shortest lives.

    Returns:
        kind string (time, short), ts timestamp (start of its bucket; null: no time, or a time far from all others),
        event string, bucket_ms int, events long, seconds double (short: its lifetime), short_lived long (deleted
        within an hour), new_partitions long, topic string
    """
    return run(in_window(SQL, window_of(topic_history, "ts")), topic_history=topic_history)
