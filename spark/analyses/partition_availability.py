"""M5: how long each partition was offline, below its minimum ISR, or under-replicated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import STATE_COLOURS, Analysis, Verdict, figure, seconds_text

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

SHOWN_MAX = 40  # bars that a person can read; the worst come first

OUTAGE_SECONDS_BAD = 1.0  # an election takes less

SQL = """
WITH marked AS (
  SELECT *, max(CASE WHEN state NOT IN ('offline', 'deleted') THEN from_offset END)
              OVER (PARTITION BY topic_id, partition) AS last_online
  FROM {partition_history}
), told AS (
  SELECT *, CASE WHEN state = 'offline' AND (last_online IS NULL OR from_offset > last_online)
                 THEN 'offline_at_end' ELSE state END AS kind
  FROM marked
)
SELECT topic, partition,
       sum(seconds)                                      AS seconds,
       sum(if(kind = 'offline', seconds, 0))             AS offline,
       sum(if(kind = 'under_min_isr', seconds, 0))       AS under_min_isr,
       sum(if(kind = 'under_replicated', seconds, 0))    AS under_replicated,
       max(if(to_ts IS NULL, state, NULL))               AS state_at_end,
       sum(if(kind = 'offline_at_end', seconds, 0))      AS offline_at_end,
       max(unclean)                                      AS unclean,
       round(100 * (1 - try_divide(sum(if(kind IN ('offline', 'under_min_isr'), seconds, 0)), sum(seconds))), 3)
                                                         AS available_percent
FROM told
GROUP BY topic_id, topic, partition
ORDER BY offline DESC, under_min_isr DESC, under_replicated DESC, topic, partition
"""


def partition_availability(partition_history: DataFrame) -> DataFrame:
    """One row for each partition that ever was, the worst first.

    Returns:
        topic string, partition int, seconds double (known to the log), offline double, under_min_isr double,
        under_replicated double (seconds in the state; offline only up to when the partition was online again, for at
        the log's end the brokers may just have been shut down), state_at_end string (null: deleted), offline_at_end
        double, unclean boolean, available_percent double (neither offline nor below the minimum ISR)
    """
    return partition_history.sparkSession.sql(SQL, partition_history=partition_history)


def plot(frame: pd.DataFrame) -> go.Figure:
    """Stacked seconds in the three bad states, for the worst partitions."""
    bad = frame[(frame["offline"] + frame["under_min_isr"] + frame["under_replicated"]) > 0]
    shown = bad.head(SHOWN_MAX).iloc[::-1]
    made = figure(height=max(220, 120 + 18 * len(shown)), barmode="stack")
    names = [f"{t}-{p}" for t, p in zip(shown["topic"], shown["partition"], strict=True)]
    for state in ("offline", "under_min_isr", "under_replicated"):
        made.add_bar(
            orientation="h",
            y=names,
            x=shown[state],
            name=state.replace("_", " "),
            marker_color=STATE_COLOURS[state],
            hovertemplate="%{y}: %{x:.2f} s<extra>" + state.replace("_", " ") + "</extra>",
        )
    made.update_layout(xaxis_title="seconds", margin_l=190)
    if shown.empty:
        made.add_annotation(text="every partition was whole all the time", showarrow=False)
    return made


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    verdicts = []
    total = len(frame)
    offline = frame[frame["offline"] > 0]
    if len(offline):
        worst = offline.iloc[0]
        verdicts.append(
            Verdict(
                "bad" if worst["offline"] >= OUTAGE_SECONDS_BAD else "warn",
                f"Availability: {len(offline)} of {total} partitions were offline for a time; "
                f"{worst['topic']}-{worst['partition']} "
                f"longest, {seconds_text(worst['offline'])}.",
            )
        )
    else:
        verdicts.append(
            Verdict(
                "ok",
                f"Availability: none of {total} partitions was offline and came back.",
            )
        )
    small = frame[frame["under_min_isr"] > 0]
    if len(small):
        longest = seconds_text(float(small["under_min_isr"].max()))
        verdicts.append(
            Verdict(
                "warn",
                f"Minimum ISR: {len(small)} partitions fell below it, the longest for {longest}.",
            )
        )
    at_end = frame[frame["state_at_end"] == "offline"]
    if len(at_end):
        verdicts.append(
            Verdict(
                "info",
                f"At the end of the log {len(at_end)} partitions have no leader: were the brokers shut down?",
            )
        )
    if frame["unclean"].any():
        verdicts.append(Verdict("bad", "Unclean elections took place: records may be lost."))
    return verdicts


ANALYSIS = Analysis(
    name="partition_availability",
    title="Partition availability",
    question="How long was each partition offline, below its minimum ISR, or under-replicated?",
    view="partition_history",
    sql=SQL,
    compute=partition_availability,
    plot=plot,
    evaluate=evaluate,
)
