"""D7: gaps and repeats in the sequences of producers, epochs that producers raised, and records without a sequence."""

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
from trimaran.spark.analyses.plots import (
    AMBER,
    BLUE,
    NO_CLOCK,
    ORANGE,
    RED,
    ROWS_SHOWN,
    distinct_labels,
    figure,
    nothing,
    of_all,
    of_one_age,
)

ROWS = 500
SEQUENCES = 1 << 31  # sequences begin again at 0

SQL = f"""
WITH told AS (
  SELECT topic, partition, base_offset, last_offset, producer_id, producer_epoch, base_sequence, record_count,
         max_timestamp,
         lag(base_sequence) OVER w AS prev_sequence, lag(last_offset - base_offset) OVER w AS prev_delta,
         lag(producer_epoch) OVER w AS prev_epoch
  FROM {{batches}} WHERE producer_id >= 0 AND NOT is_control
  WINDOW w AS (PARTITION BY topic, partition, producer_id ORDER BY base_offset)
), judged AS (
  SELECT *, CASE
    WHEN prev_sequence IS NULL THEN NULL
    WHEN producer_epoch > prev_epoch THEN 'epoch_bump'
    WHEN producer_epoch < prev_epoch THEN 'old_epoch'
    WHEN base_sequence = (prev_sequence + prev_delta + 1) % {SEQUENCES} THEN NULL
    WHEN base_sequence <= prev_sequence AND prev_sequence - base_sequence < {SEQUENCES // 2} THEN 'repeat'
    ELSE 'gap' END AS anomaly
  FROM told
), totals AS (
  SELECT sum(record_count) AS all_records,
         sum(CASE WHEN producer_id < 0 THEN record_count ELSE 0 END) AS without_producer
  FROM {{batches}} WHERE NOT is_control
)
(SELECT 'event' AS kind, topic, partition, base_offset, producer_id, producer_epoch, anomaly, max_timestamp AS ts,
        count(*) OVER (PARTITION BY anomaly) AS events, CAST(NULL AS BIGINT) AS all_records,
        CAST(NULL AS BIGINT) AS without_producer
 FROM judged WHERE anomaly IS NOT NULL
 ORDER BY anomaly = 'epoch_bump', ts DESC, topic, partition, base_offset LIMIT {ROWS})
UNION ALL
SELECT 'total', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, all_records, without_producer FROM totals
WHERE all_records > 0
"""


def plot(frame: Rows) -> Figure:
    """Draws the anomalies by time and partition."""
    shown = frame[frame["kind"] == "event"]
    if shown.empty:
        return nothing("every sequence follows the one before")
    shown, title = of_one_age(shown, "ts")
    if shown.empty:
        return nothing(NO_CLOCK)
    names = shown["topic"] + "-" + shown["partition"].astype("Int64").astype(str)
    every = list(dict.fromkeys(names))
    title += of_all(min(len(every), ROWS_SHOWN), len(every))
    keep = names.isin(every[:ROWS_SHOWN])
    shown, names = shown[keep], names[keep]
    labels = dict(
        zip(dict.fromkeys(names), distinct_labels(list(dict.fromkeys(names))), strict=True)
    )
    made = figure(height=150 + 24 * len(labels))
    colours = {"gap": RED, "repeat": ORANGE, "old_epoch": AMBER, "epoch_bump": BLUE}
    for anomaly, rows in shown.groupby("anomaly"):
        made.add_scatter(
            x=rows["ts"],
            y=[labels[n] for n in names[rows.index]],
            mode="markers",
            name=str(anomaly).replace("_", " "),
            marker={"color": colours.get(str(anomaly)), "size": 9},
        )
    made.update_xaxes(type="date", title=title)
    made.update_yaxes(type="category", autorange="reversed")
    made.update_layout(showlegend=True)
    return made


def evaluate(frame: Rows) -> list[ReportVerdict]:
    total = frame[frame["kind"] == "total"]
    if total.empty:
        return []
    one, verdicts = total.iloc[0], []
    events = frame[frame["kind"] == "event"].groupby("anomaly")["events"].first()
    wrong = {k: int(events.get(k, 0)) for k in ("gap", "repeat", "old_epoch")}
    if any(wrong.values()):
        told = ", ".join(f"{n:,} × {k.replace('_', ' ')}" for k, n in wrong.items() if n)
        verdicts.append(
            ReportVerdict(
                "bad", f"Producers' sequences: {told} (a gap is none in compacted topics)."
            )
        )
    else:
        verdicts.append(ReportVerdict("ok", "Producers' sequences: each follows the one before."))
    share = 100 * one["without_producer"] / one["all_records"]
    text = f"{share:.3g} % of the records come from producers that are not idempotent"
    if bumps := int(events.get("epoch_bump", 0)):
        text += f"; {count_text(bumps, 'take-over')} of a producer by its next epoch"
    verdicts.append(ReportVerdict("info", f"Producers: {text}."))
    return verdicts


@analysis(
    number="D7",
    title="Producer anomalies",
    question="Do producers' sequences have gaps or repeats, and how many records are not idempotent?",
    views={
        "batches": "topic string, partition int, base_offset bigint, last_offset bigint, producer_id bigint, "
        "producer_epoch int, base_sequence int, record_count int, max_timestamp timestamp, is_control boolean"
    },
    needs="batches in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def producer_anomalies(batches: DataFrame) -> DataFrame:
    """Returns batches whose sequence does not follow the previous one of the same producer and partition, and a row of
    totals.

    A gap that compaction made is not an anomaly.

    Returns:
        kind string (event, total), topic string, partition int, base_offset long, producer_id long, producer_epoch int,
        anomaly string (gap, repeat, old_epoch, epoch_bump), ts timestamp, events long (number of that anomaly),
        all_records long, without_producer long (records of producers that are not idempotent)
    """
    return run(SQL, batches=batches)
