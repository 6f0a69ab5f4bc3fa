"""M6: the states of brokers over time, the number of restarts, and the time until a broker served again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    ids_text,
    run,
    seconds_text,
    times_text,
)
from trimaran.spark.analyses.plots import nothing, spans
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = imported_later("pandas")

ROWS = 2000
SECONDS_DRAWN_MAX = 1e9  # thirty years: a longer time shows a broken clock
UNFENCE_SECONDS_MAX = 30.0
# A text for the case that all times are impossible, or all are equal.
UNKNOWN_SHARE = "for an unknown part"

SQL = f"""
WITH spans AS (
  SELECT *, lead(state) OVER w AS next_state FROM {{broker_history}}
  WINDOW w AS (PARTITION BY broker_id ORDER BY from_offset)
), totals AS (
  SELECT broker_id, sum(CASE WHEN state = 'active' THEN seconds ELSE 0 END) AS active_seconds,
         sum(seconds) AS known_seconds,
         sum(CASE WHEN cause = 'restarted' THEN 1 ELSE 0 END) AS restarts,
         sum(CASE WHEN cause = 'fenced' THEN 1 ELSE 0 END) AS fences,
         sum(CASE WHEN cause = 'controlled_shutdown' THEN 1 ELSE 0 END) AS shutdowns,
         max(CASE WHEN state IN ('registered', 'fenced') AND next_state = 'active' THEN seconds END) AS unfence_max,
         max_by(state, from_offset) AS state_at_end
  FROM spans GROUP BY broker_id
)
SELECT broker_id, from_ts, to_ts, seconds, state, cause, rack, active_seconds, known_seconds, restarts, fences,
       shutdowns, unfence_max, state_at_end
FROM spans JOIN totals USING (broker_id)
ORDER BY from_offset DESC LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws a line for each broker, coloured by its state."""
    if frame.empty:
        return nothing("no broker in the log")
    # Other intervals begin or end at a time that is years off.
    frame = frame[frame["seconds"].notna()]
    lasted = pd.to_timedelta(frame["seconds"].clip(upper=SECONDS_DRAWN_MAX), unit="s")
    ends = frame["to_ts"].fillna(frame["from_ts"] + lasted)
    shown = frame.assign(end=ends, name="broker " + frame["broker_id"].astype(str))
    shown = shown.sort_values(["broker_id", "from_ts"])
    return spans(shown, "name", "from_ts", "end", "state")


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    brokers = frame.drop_duplicates("broker_id")
    restarts, fences = int(brokers["restarts"].sum()), int(brokers["fences"].sum())
    known = brokers["known_seconds"].sum()
    share = f"{100 * brokers['active_seconds'].sum() / known:.4g} %" if known else UNKNOWN_SHARE
    text = (
        f"{count_text(len(brokers), 'broker')}, active {share} of the time; "
        f"{count_text(restarts, 'restart')}, fenced {times_text(fences)}"
    )
    verdicts = [ReportVerdict("warn" if fences else "ok", f"Brokers: {text}.")]
    slow = brokers[brokers["unfence_max"] > UNFENCE_SECONDS_MAX]
    if len(slow):
        worst = slow.loc[slow["unfence_max"].idxmax()]
        text = f"broker {worst['broker_id']} took {seconds_text(worst['unfence_max'])}, the longest"
        verdicts.append(ReportVerdict("warn", f"Time until active: {text}."))
    gone = brokers[brokers["state_at_end"].isin(["fenced", "registered", "controlled_shutdown"])]
    if len(gone):
        told = ids_text("broker", gone["broker_id"])
        verdicts.append(ReportVerdict("warn", f"Not active at the end of the log: {told}."))
    return verdicts


@analysis(
    number="M6",
    title="Broker availability",
    question="When was each broker active, how often did it restart, and how long was it fenced?",
    views={
        "broker_history": "broker_id int, rack string, from_offset bigint, from_ts timestamp, to_ts timestamp, "
        "seconds double, state string, cause string"
    },
    needs="brokers in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def broker_availability(broker_history: DataFrame) -> DataFrame:
    """Returns the latest intervals of brokers, with the totals of each broker.

    Returns:
        broker_id int, from_ts timestamp, to_ts timestamp (null: it still lasts), seconds double, state string, cause
        string, rack string, active_seconds double, known_seconds double, restarts long, fences long, shutdowns long,
        unfence_max double (the longest time from a registration until it served), state_at_end string
    """
    return run(SQL, broker_history=broker_history)
