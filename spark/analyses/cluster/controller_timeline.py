"""M1: the leaders of the metadata quorum, the time that each led, and the gap in the log at each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import (
    YEARS_MS,
    DataFrame,
    Figure,
    Level,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.plots import GREEN, RED, nothing, spans
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = imported_later("pandas")

GAP_MS_MAX = 3000  # an election with Kafka's default timeouts takes 2 to 3 s; a longer one deserves attention
GAP_MS_DRAWN_MAX = 1e12  # thirty years: a longer time means a broken clock

SQL = f"""
SELECT epoch, leader_id, from_ts, to_ts, seconds, records, gap_before_ms,
       count(*) OVER () AS epochs,
       max(CASE WHEN gap_before_ms <= {YEARS_MS} THEN gap_before_ms END) OVER () AS gap_max_ms
FROM {{quorum_epochs}}
ORDER BY epoch DESC
"""


def plot(frame: Rows) -> Figure:
    """Draws a bar for each epoch on the line of its leader, and the gaps between the records of epochs in red."""
    if frame.empty:
        return nothing("no epoch of a quorum in the log")
    shown = frame.head(300).iloc[::-1]
    leaders = shown["leader_id"].map(lambda v: "unknown" if v != v else f"controller {int(v)}")
    bars_ = shown.assign(who=leaders, kind="leads", end=shown["to_ts"])[
        ["who", "from_ts", "end", "kind"]
    ]
    gaps = shown[shown["gap_before_ms"].fillna(0) > 0]
    silent = pd.DataFrame(
        {
            "who": "no records",
            "from_ts": gaps["from_ts"]
            - pd.to_timedelta(gaps["gap_before_ms"].clip(upper=GAP_MS_DRAWN_MAX), unit="ms"),
            "end": gaps["from_ts"],
            "kind": "silence",
        }
    )
    both = pd.concat([bars_, silent]).sort_values("from_ts")
    return spans(both, "who", "from_ts", "end", "kind", colours={"leads": GREEN, "silence": RED})


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    last = frame.iloc[0]
    longest = last["gap_max_ms"]
    leader = last["leader_id"]
    now = "unknown" if leader != leader else f"controller {int(leader)}"
    text = f"{count_text(last['epochs'], 'epoch')}; {now} leads at the end"
    if longest <= 0:
        text += "; each began no later than the one before ended: clocks are not in step, or stand still"
    elif longest != longest:
        unknown = "how long there was no leader in between is unknown: clocks show no time, or are years off"
        text += f"; {unknown}" if last["epochs"] > 1 else ""
    else:
        text += (
            f"; longest gap between the records of two epochs {seconds_text(longest / 1000)}"
            " (the time without a leader is at most that)"
        )
    is_told = longest > 0 or last["epochs"] == 1
    level: Level = "warn" if longest > GAP_MS_MAX else "ok" if is_told else "info"
    return [ReportVerdict(level, f"Controllers: {text}.")]


@analysis(
    number="M1",
    title="Controller timeline",
    question="Which controller led the metadata quorum, for how long, and how long was the log silent in between?",
    views={
        "quorum_epochs": "epoch int, leader_id int, from_ts timestamp, to_ts timestamp, seconds double, "
        "records bigint, gap_before_ms bigint"
    },
    needs="epochs of a metadata quorum",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def controller_timeline(quorum_epochs: DataFrame) -> DataFrame:
    """Returns one row for each epoch of the quorum, the latest first.

    Returns:
        epoch int, leader_id int (null: its first record is missing), from_ts timestamp, to_ts timestamp (that of its
        last record), seconds double, records long, gap_before_ms long (from the last record of the previous epoch to
        its first: an upper bound of the time without a leader, since a leader may have had nothing to write), epochs
        long (the total), gap_max_ms long (without gaps of years)
    """
    return run(SQL, quorum_epochs=quorum_epochs)
