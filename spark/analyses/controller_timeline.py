"""M1: who led the metadata quorum, how long, and how long the log was silent at each change of leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import (
    PALETTE,
    RED,
    Analysis,
    Verdict,
    figure,
    seconds_text,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

GAP_MS_MAX = (
    3000  # an election with Kafka's default timeouts takes 2 to 3 s; longer deserves a look
)

SQL = """
SELECT epoch, leader_id, from_ts, to_ts, seconds, records, gap_before_ms
FROM {quorum_epochs}
ORDER BY epoch
"""


def controller_timeline(quorum_epochs: DataFrame) -> DataFrame:
    """One row for each epoch of the quorum, in order.

    Returns:
        epoch int, leader_id int (null: elected, but its first record is not there), from_ts timestamp, to_ts timestamp
        (its last record), seconds double, records long, gap_before_ms long (from the last record of the epoch before to
        its first: an upper bound of the time without a leader, since a leader may have had nothing to write)
    """
    return quorum_epochs.sparkSession.sql(SQL, quorum_epochs=quorum_epochs)


def plot(frame: pd.DataFrame) -> go.Figure:
    """A bar for each epoch on its leader's line, and the gaps between their records in red."""
    leaders = sorted({int(v) for v in frame["leader_id"].dropna()})
    made = figure(height=160 + 44 * (len(leaders) + 1), barmode="overlay")
    for index, leader in enumerate(leaders):
        led = frame[frame["leader_id"] == leader]
        made.add_bar(
            orientation="h",
            y=[f"controller {leader}"] * len(led),
            base=led["from_ts"],
            x=(led["seconds"] * 1000).clip(lower=1),
            marker_color=PALETTE[index % len(PALETTE)],
            customdata=led[["epoch", "seconds", "records"]],
            hovertemplate="epoch %{customdata[0]}<br>%{customdata[1]:.1f} s, %{customdata[2]} records<extra></extra>",
            text=[f"epoch {e}" for e in led["epoch"]],
            showlegend=False,
        )
    gaps = frame[frame["gap_before_ms"].fillna(0) > 0]
    made.add_bar(
        orientation="h",
        y=["no records"] * len(gaps),
        base=[
            t - _milliseconds(g)
            for t, g in zip(gaps["from_ts"], gaps["gap_before_ms"], strict=True)
        ],
        x=gaps["gap_before_ms"],
        marker_color=RED,
        text=[seconds_text(g / 1000) for g in gaps["gap_before_ms"]],
        textposition="outside",
        showlegend=False,
    )
    made.update_layout(xaxis={"type": "date", "title": "UTC"})
    return made


def _milliseconds(number: float) -> pd.Timedelta:
    import pandas as pd

    return pd.Timedelta(milliseconds=number)


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    if frame.empty:
        return [Verdict("warn", "the metadata log names no leader")]
    gaps = frame["gap_before_ms"].dropna()
    longest = float(gaps.max()) if len(gaps) else 0.0
    leader = frame["leader_id"].iloc[-1]
    now = "unknown" if leader != leader else f"controller {int(leader)}"
    text = f"{len(frame)} epoch{'s' if len(frame) > 1 else ''}; {now} leads at the end"
    if len(gaps):
        text += (
            f"; longest gap between the records of two epochs {seconds_text(longest / 1000)}"
            " (the time without a leader is at most that)"
        )
    return [Verdict("ok" if longest <= GAP_MS_MAX else "warn", f"Controllers: {text}.")]


ANALYSIS = Analysis(
    name="controller_timeline",
    title="Controller timeline",
    question="Who led the metadata quorum, for how long, and how long was the log silent in between?",
    view="quorum_epochs",
    sql=SQL,
    compute=controller_timeline,
    plot=plot,
    evaluate=evaluate,
)
