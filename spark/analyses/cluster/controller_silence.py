"""M2: the times in which controllers wrote nothing: a live leader writes a record every half second."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    YEARS_MS,
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    doubled_text,
    run,
    seconds_text,
    time_text,
)
from trimaran.spark.analyses.plots import BLUE, GREY, RED, bars, nothing

IDLE_MS = 500  # metadata.max.idle.interval.ms: a leader that has been idle for this time writes a NoOpRecord
SILENCE_MS = 3 * IDLE_MS
LIMIT = seconds_text(SILENCE_MS / 1000)
USUAL, SILENCE = f"up to {LIMIT}", f"longer than {LIMIT}: silence"
UNTOLD = "no clock tells"

SQL = f"""
WITH followed AS (
  SELECT base_offset, base_timestamp, epoch, lag(base_offset) OVER w IS NOT NULL AS follows,
         unix_millis(base_timestamp) - unix_millis(lag(max_timestamp) OVER w) AS ms
  FROM {{metadata_batches}} WINDOW w AS (PARTITION BY file ORDER BY base_offset)
), intervals AS (
  SELECT base_offset, base_timestamp, epoch, CASE WHEN ms <= {YEARS_MS} THEN ms END AS ms FROM followed WHERE follows
)
SELECT CAST(pow(2, floor(log2(greatest(ms, CASE WHEN ms IS NOT NULL THEN 1 END)))) AS BIGINT) AS ms_from,
       count(*) AS intervals, max(ms) AS longest_ms,
       max_by(timestamp_millis(unix_millis(base_timestamp) - ms), struct(ms, base_offset)) AS longest_ts,
       CASE WHEN max(ms) IS NOT NULL THEN max_by(epoch, struct(ms, base_offset)) END AS epoch,
       count_if(ms > {SILENCE_MS}) AS silences
FROM intervals GROUP BY ms_from ORDER BY ms_from
"""


def plot(frame: Rows) -> Figure:
    """Draws the number of intervals by length; those beyond the mark are red."""
    if frame.empty:
        return nothing("fewer than two batches")
    told = frame["ms_from"].notna()
    late = frame["silences"]
    usual = (frame["intervals"] - late).where(told, 0)
    series = {USUAL: usual, SILENCE: late, UNTOLD: frame["intervals"].where(~told, 0)}
    return bars(
        [doubled_text(ms) for ms in frame["ms_from"]],
        {kind: counts for kind, counts in series.items() if counts.any()},
        x_title="how many times a batch came this long after the previous one",
        colours={USUAL: BLUE, SILENCE: RED, UNTOLD: GREY},
    )


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    told, unknown = frame[frame["ms_from"].notna()], frame[frame["ms_from"].isna()]
    if told.empty or told["longest_ms"].max() <= 0:
        text = "cannot be told: the times of batches are none, stand still or are years apart"
        return [ReportVerdict("info", f"Controller silence: {text}.")]
    silences = int(told["silences"].sum())
    worst = told.loc[told["longest_ms"].idxmax()]
    longest = seconds_text(worst["longest_ms"] / 1000)
    if silences:
        text = (
            f"{count_text(silences, 'interval')} longer than {LIMIT}; the longest, "
            f"{longest}, began at {time_text(worst['longest_ts'])}"
        )
    else:
        text = f"the metadata log was never silent for more than {longest}"
    verdicts = [ReportVerdict("warn" if silences else "ok", f"Controller silence: {text}.")]
    if len(unknown):
        text = f"{count_text(unknown['intervals'].sum(), 'interval')} of unknown length: clocks are years off"
        verdicts.append(ReportVerdict("warn", f"Controller silence: {text}."))
    return verdicts


@analysis(
    number="M2",
    title="Controller silence",
    question="Were there times when no controller wrote anything?",
    views={
        "metadata_batches": "file string, base_offset bigint, epoch int, base_timestamp timestamp, "
        "max_timestamp timestamp"
    },
    needs="batches of a metadata log that follow others",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def controller_silence(metadata_batches: DataFrame) -> DataFrame:
    """Returns the times between batches of the metadata log, in powers of two.

    Returns:
        ms_from long (up to twice as long, exclusive; null: unknown, or a clock was years off), intervals long,
        longest_ms long, longest_ts timestamp (the start of the longest one), epoch int (that of the batch that ended
        it), silences long (longer than three times the idle interval)
    """
    return run(SQL, metadata_batches=metadata_batches)
