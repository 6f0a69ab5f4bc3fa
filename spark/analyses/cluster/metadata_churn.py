"""M13: records and bytes of the metadata log by type, and the frequency and size of snapshots."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    bytes_text,
    count_text,
    run,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import nothing, over_time

SQL = f"""
SELECT 'time' AS kind, {bucketed("timestamp")} AS ts, type, :bucket_ms AS bucket_ms, count(*) AS records,
       sum(size) AS bytes, CAST(NULL AS BIGINT) AS end_offset, CAST(NULL AS STRING) AS error
FROM {{metadata_records}}
WHERE source = 'log' GROUP BY ALL
UNION ALL
(SELECT 'snapshot', last_record_ts, 'snapshot', :bucket_ms, records, bytes, end_offset, error
 FROM {{metadata_snapshots}} ORDER BY end_offset DESC LIMIT 200)
"""


def plot(frame: Rows) -> Figure:
    """Draws records by time, with a colour for each type."""
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return nothing("no record in the log")
    width = float(shown["bucket_ms"].iloc[0])
    return over_time(shown, "records", "type", y_title="records", width_ms=width)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return []
    by_type = shown.groupby("type")["records"].sum().sort_values(ascending=False)
    text = (
        f"{count_text(by_type.sum(), 'record')}, {bytes_text(float(shown['bytes'].sum()))}; most are "
        f"{by_type.index[0]} ({100 * by_type.iloc[0] / by_type.sum():.3g} %)"
    )
    verdicts = [
        ReportVerdict("info", f"Metadata log: {text}."),
        *undated(shown, "records", "record", "Metadata log"),
    ]
    unknown = by_type[by_type.index.str.startswith("UNKNOWN_")]
    if len(unknown):
        text = f"{count_text(unknown.sum(), 'record')} of a later Kafka ({', '.join(sorted(unknown.index))})"
        verdicts.append(
            ReportVerdict("warn", f"Metadata log: {text}; what they change is in no analysis.")
        )
    snapshots = frame[frame["kind"] == "snapshot"]
    if len(snapshots):
        latest = snapshots.loc[snapshots["end_offset"].idxmax()]
        text = f"{count_text(len(snapshots), 'snapshot')}, the latest of {bytes_text(float(latest['bytes']))}"
        verdicts.append(ReportVerdict("info", f"Snapshots: {text}."))
    damaged = snapshots[snapshots["error"].notna()]
    if len(damaged):
        text = f"{count_text(len(damaged), 'snapshot')} not whole: {damaged['error'].iloc[0]}"
        verdicts.append(ReportVerdict("bad", f"Snapshots: {text}."))
    return verdicts


@analysis(
    number="M13",
    title="Contents of the metadata log",
    question="Which records make the metadata log grow, and how often is it snapshotted?",
    views={
        "metadata_records": "source string, timestamp timestamp, type string, size int",
        "metadata_snapshots": "end_offset bigint, last_record_ts timestamp, bytes bigint, records bigint, error string",
    },
    needs="records in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def metadata_churn(metadata_records: DataFrame, metadata_snapshots: DataFrame) -> DataFrame:
    """Returns records by time and type, and the latest snapshots.

    Returns:
        kind string (time, snapshot), ts timestamp (time: start of the bucket, null for no time or a time far from all
        others; snapshot: the last record that it covers), type string, bucket_ms int, records long, bytes long,
        end_offset long, error string (of a snapshot; null: undamaged)
    """
    window = window_of(metadata_records, "timestamp")
    frames = {"metadata_records": metadata_records, "metadata_snapshots": metadata_snapshots}
    return run(in_window(SQL, window), **frames)
