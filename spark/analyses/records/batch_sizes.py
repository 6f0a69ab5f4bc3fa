"""D5: the size of batches and the number of their records, by codec."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import DataFrame, Figure, ReportVerdict, Rows, analysis, run
from trimaran.spark.analyses.plots import figure, nothing

RECORDS_MEAN_MIN = 5.0  # with fewer records in a batch, headers and requests are most of the work

SQL = """
SELECT compression, CAST(pow(2, floor(log2(record_count))) AS BIGINT) AS records_from,
       count(*) AS batches, sum(record_count) AS records, sum(batch_bytes) AS bytes
FROM {batches}
WHERE record_count > 0
GROUP BY ALL
ORDER BY compression, records_from
"""


def plot(frame: Rows) -> Figure:
    """Draws the share of records by the size of their batch, for each codec."""
    if frame.empty:
        return nothing("no batches")
    made = figure(
        height=300, barmode="stack", xaxis_title="records in the batch", yaxis_title="records"
    )
    sizes = sorted(frame["records_from"].unique())
    made.update_xaxes(
        type="category", categoryorder="array", categoryarray=[_range(s) for s in sizes]
    )
    for codec, rows in frame.groupby("compression"):
        made.add_bar(
            x=[_range(s) for s in rows["records_from"]], y=rows["records"], name=str(codec)
        )
    made.update_layout(showlegend=True)
    return made


def _range(start: int) -> str:
    return "1" if start == 1 else f"{start:,}–{2 * start - 1:,}"


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    mean = float(frame["records"].sum() / frame["batches"].sum())
    codecs = ", ".join(sorted(frame["compression"].unique()))
    advice = "" if mean >= RECORDS_MEAN_MIN else " Producers might linger longer."
    text = f"Batches: {mean:.1f} records each on average ({codecs}).{advice}"
    return [ReportVerdict("warn" if advice else "ok", text)]


@analysis(
    number="D5",
    title="Batch sizes",
    question="Do producers fill their batches?",
    views={"batches": "compression string, record_count int, batch_bytes int"},
    needs="batches in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def batch_sizes(batches: DataFrame) -> DataFrame:
    """Returns batches by their number of records, in powers of two: from `records_from` to twice that, exclusive.

    Returns:
        compression string, records_from long, batches long, records long, bytes long
    """
    return run(SQL, batches=batches)
