"""D5: how large batches are, and how many records they carry, by topic and codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark.analyses.analysis import Analysis, Verdict, figure

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go
    from pyspark.sql import DataFrame

RECORDS_MEAN_MIN = 5.0  # fewer records a batch, and headers and requests are most of the work

SQL = """
SELECT topic, compression, CAST(pow(2, floor(log2(record_count))) AS BIGINT) AS records_from,
       count(*) AS batches, sum(record_count) AS records, sum(batch_bytes) AS bytes
FROM {batches}
WHERE record_count > 0
GROUP BY ALL
ORDER BY topic, compression, records_from
"""


def batch_sizes(batches: DataFrame) -> DataFrame:
    """Batches by their number of records, in powers of two: `records_from` to twice that, exclusive.

    Returns:
        topic string, compression string, records_from long, batches long, records long, bytes long
    """
    return batches.sparkSession.sql(SQL, batches=batches)


def plot(frame: pd.DataFrame) -> go.Figure:
    """Which share of the records came in batches of which size, by codec."""
    made = figure(
        height=300, barmode="stack", xaxis_title="records in the batch", yaxis_title="records"
    )
    sizes = sorted(frame["records_from"].unique())
    made.update_xaxes(
        type="category", categoryorder="array", categoryarray=[_range(s) for s in sizes]
    )
    for codec, rows in frame.groupby("compression"):
        by_size = rows.groupby("records_from")["records"].sum()
        made.add_bar(x=[_range(s) for s in by_size.index], y=by_size, name=str(codec))
    return made


def _range(start: int) -> str:
    return "1" if start == 1 else f"{start}–{2 * start - 1}"


def evaluate(frame: pd.DataFrame) -> list[Verdict]:
    if frame.empty:
        return []
    mean = float(frame["records"].sum() / frame["batches"].sum())
    codecs = ", ".join(sorted(frame["compression"].unique()))
    level = "ok" if mean >= RECORDS_MEAN_MIN else "warn"
    advice = "" if level == "ok" else " Producers might linger longer."
    text = f"Batches: {mean:.1f} records each on average ({codecs}).{advice}"
    return [Verdict("ok", text) if level == "ok" else Verdict("warn", text)]


ANALYSIS = Analysis(
    name="batch_sizes",
    title="Batch sizes",
    question="Do producers fill their batches?",
    view="batches",
    sql=SQL,
    compute=batch_sizes,
    plot=plot,
    evaluate=evaluate,
)
