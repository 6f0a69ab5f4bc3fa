"""M2: how long the controllers wrote nothing: a leader that is alive writes a record every half second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import (
    Analysis,
    Verdict,
    count_text,
    run,
    seconds_text,
    time_text,
)
from spark.analyses.plots import (
    BLUE,
    RED,
    bars,
    nothing,
)

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

IDLE_MS = 500  # metadata.max.idle.interval.ms: after it a leader writes a NoOpRecord
SILENCE_MS = 3 * IDLE_MS

SQL = """
WITH intervals AS (
  SELECT base_timestamp, epoch, unix_millis(base_timestamp)
         - unix_millis(lag(max_timestamp) OVER (PARTITION BY file ORDER BY base_offset)) AS ms
  FROM {metadata_batches}
)
SELECT CAST(pow(2, floor(log2(greatest(ms, 1)))) AS BIGINT) AS ms_from, count(*) AS intervals, max(ms) AS longest_ms,
       max_by(timestamp_millis(unix_millis(base_timestamp) - ms), ms) AS longest_ts, max_by(epoch, ms) AS epoch,
       sum(CASE WHEN ms > :silence_ms THEN 1 ELSE 0 END) AS silences
FROM intervals WHERE ms IS NOT NULL
GROUP BY ms_from ORDER BY ms_from
"""


def controller_silence(metadata_batches: DataFrame) -> DataFrame:
    """Times between batches of the metadata log, in powers of two.

    Returns:
        ms_from long (to twice that, exclusive), intervals long, longest_ms long, longest_ts timestamp (when that one
        began), epoch int (of the batch that ended it), silences long (longer than three times the idle interval)
    """
    return run(SQL.replace(":silence_ms", str(SILENCE_MS)), metadata_batches=metadata_batches)


def plot(frame: pd.DataFrame) -> go.Figure:
    """How many intervals are how long; beyond the mark in red."""
    if frame.empty:
        return nothing("fewer than two batches")
    names = [seconds_text(ms / 1000) + " and more" for ms in frame["ms_from"]]
    late = frame["silences"]
    return bars(
        names,
        {"as usual": frame["intervals"] - late, "silence": late},
        x_title="intervals between batches",
        colours={"as usual": BLUE, "silence": RED},
    )


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    if frame.empty:
        return []
    silences = int(frame["silences"].sum())
    worst = frame.loc[frame["longest_ms"].idxmax()]
    if not silences:
        text = f"the metadata log was never silent for more than {seconds_text(worst['longest_ms'] / 1000)}"
        return [Verdict("ok", f"Controller silence: {text}.")]
    text = (
        f"{count_text(silences, 'interval')} longer than {seconds_text(SILENCE_MS / 1000)}; the longest, "
        f"{seconds_text(worst['longest_ms'] / 1000)}, began at {time_text(worst['longest_ts'])}"
    )
    return [Verdict("warn", f"Controller silence: {text}.")]


ANALYSIS = Analysis(
    number="M2",
    name="controller_silence",
    title="Controller silence",
    question="Were there times in which no controller wrote anything?",
    views={
        "metadata_batches": "file string, base_offset bigint, epoch int, base_timestamp timestamp, "
        "max_timestamp timestamp"
    },
    needs="batches of a metadata log",
    sql=SQL,
    compute=controller_silence,
    plot=plot,
    evaluate=evaluate,
)
