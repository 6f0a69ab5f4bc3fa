"""M18: changes of feature levels, including metadata.version and kraft.version, and of the quorum's voters."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
)
from trimaran.spark.analyses.plots import nothing, table

ROWS = 300

SQL = f"""
SELECT ts, 'feature' AS kind, name AS what, event,
       concat_ws(' → ', CAST(old_level AS STRING), concat(CAST(new_level AS STRING),
                 CASE WHEN coalesce(release, CAST(new_level AS STRING)) = CAST(new_level AS STRING) THEN ''
                      ELSE concat(' (', release, ')') END)) AS told,
       new_level, offset FROM {{feature_history}}
UNION ALL
SELECT ts, 'voter', concat('voter ', voter_id), event, concat('voters ', array_join(voters, ', ')), NULL, offset
FROM {{voter_history}}
ORDER BY offset DESC LIMIT {ROWS}
"""


def plot(frame: Rows) -> Figure:
    """Draws the changes as a table."""
    if frame.empty:
        return nothing("no feature level and no voter in the log")
    return table(frame, {"ts": "when (UTC)", "what": "what", "event": "event", "told": "is now"})


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    verdicts = []
    features = frame[frame["kind"] == "feature"]
    latest = features.drop_duplicates("what")
    told = ", ".join(
        f"{w} {t.split(' → ')[-1]}" for w, t in zip(latest["what"], latest["told"], strict=True)
    )
    if told:
        verdicts.append(ReportVerdict("info", f"Features at the end: {told}."))
    down = features[features["event"] == "downgraded"]
    if len(down):
        text = f"{down['what'].iloc[0]}: {down['told'].iloc[0]}"
        verdicts.append(ReportVerdict("warn", f"Downgraded: {text}."))
    voters = frame[frame["kind"] == "voter"]
    if len(voters):
        moved = int(voters["event"].isin(["added", "removed"]).sum())
        text = f"{voters['told'].iloc[0]} at the end; {count_text(moved, 'change')} of the set"
        verdicts.append(ReportVerdict("info", f"Quorum: {text}."))
    return verdicts


@analysis(
    number="M18",
    title="Features and voters",
    question="Which feature levels and voters changed, and what are they now?",
    views={
        "feature_history": "offset bigint, ts timestamp, name string, old_level int, new_level int, release string, "
        "event string",
        "voter_history": "offset bigint, ts timestamp, event string, voter_id int, voters array<int>",
    },
    needs="feature levels or voters in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def features_and_voters(feature_history: DataFrame, voter_history: DataFrame) -> DataFrame:
    """Returns the changes, the latest first.

    Returns:
        ts timestamp, kind string (feature, voter), what string, event string, told string, new_level int, offset long
    """
    return run(SQL, feature_history=feature_history, voter_history=voter_history)
