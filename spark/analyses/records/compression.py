"""D4: the compression of batches, and the size of a sample of the records with other codecs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.log.codecs.compression import Compression, compress
from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    bytes_text,
    map_groups,
    run,
)
from trimaran.spark.analyses.plots import distinct_labels, figure, nothing, short
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = imported_later("pyarrow")

# the number of latest offsets of each partition: a few hundred KiB, enough for every codec to adapt
SAMPLE_RECORDS = 500
SAMPLE_BYTES = 1 << 20  # bytes of the sample of each topic
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
WORTH_IT = 0.8  # a codec is worth considering if it needs at most this share of the present bytes

# characters of a topic's name below its bars: a longer name leaves no room for them
NAME_LETTERS = 20

# Selects the latest records by offset, since selecting them by time would sort all records.
SAMPLE_SQL = f"""
SELECT /*+ BROADCAST(e) */ r.topic, r.key, r.value FROM {{records}} r JOIN (
  SELECT topic, partition, max(last_offset) AS last FROM {{batches}} GROUP BY topic, partition
) e ON r.topic = e.topic AND r.partition = e.partition AND r.offset > e.last - {SAMPLE_RECORDS}
"""
SQL = """
WITH used AS (
  SELECT topic, compression AS codec, sum(batch_bytes) AS stored_bytes, sum(record_count) AS stored_records
  FROM {batches} GROUP BY topic, compression
)
SELECT topic, codec, s.sampled_records, s.plain_bytes, s.packed_bytes, s.packed_bytes / s.plain_bytes AS ratio,
       coalesce(u.stored_bytes, 0) AS stored_bytes, coalesce(u.stored_records, 0) AS stored_records,
       sum(u.stored_bytes) OVER (PARTITION BY topic) AS topic_bytes
FROM {sampled} s FULL JOIN used u USING (topic, codec)
ORDER BY topic_bytes DESC, topic, packed_bytes, codec
"""
SAMPLED_SCHEMA = (
    "topic string, codec string, sampled_records long, plain_bytes long, packed_bytes long"
)


def repacked(sample: pa.Table) -> pa.Table:
    """Compresses the sample of a topic with each codec, as one batch of up to `SAMPLE_BYTES`. Runs on executors."""
    plain, records = bytearray(), 0
    for key, value in zip(sample["key"].to_pylist(), sample["value"].to_pylist(), strict=True):
        plain += bytes(6) + (key or b"") + (value or b"")  # lengths and deltas take a few bytes
        records += 1
        if len(plain) >= SAMPLE_BYTES:
            break
    rows: dict[str, list[Any]] = {column.split()[0]: [] for column in SAMPLED_SCHEMA.split(", ")}
    for codec in CODECS:
        kind = Compression[codec.upper()]
        packed = len(plain) if codec == "none" else len(compress(kind, bytes(plain)))
        told = (sample["topic"][0].as_py(), codec, records, len(plain), packed)
        for column, cell in zip(rows.values(), told, strict=True):
            column.append(cell)
    return pa.table(rows)


def plot(frame: Rows) -> Figure:
    """Draws the share of the sample that each codec leaves, for the largest topics."""
    shown = frame[frame["ratio"].notna()]
    if shown.empty:
        return nothing("no records to sample")
    topics = list(dict.fromkeys(shown["topic"]))[:12]
    made = figure(barmode="group", yaxis_title="% of the plain bytes", height=380)
    labels = dict(zip(topics, distinct_labels(topics, NAME_LETTERS), strict=True))
    for codec in CODECS:
        rows = shown[(shown["codec"] == codec) & shown["topic"].isin(topics)]
        made.add_bar(x=[labels[t] for t in rows["topic"]], y=100 * rows["ratio"], name=codec)
    made.update_xaxes(type="category")
    made.update_layout(showlegend=True)
    return made


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    used = frame.groupby("codec")["stored_bytes"].sum().sort_values(ascending=False)
    told = ", ".join(f"{codec} {bytes_text(float(n))}" for codec, n in used.items() if n)
    verdicts = [ReportVerdict("info", f"Compression: stored as {told}.")]
    for topic, rows in frame[frame["ratio"].notna()].groupby("topic", sort=False):
        now = rows.loc[rows["stored_bytes"].idxmax()]
        best = rows.loc[rows["packed_bytes"].idxmin()]
        if best["packed_bytes"] <= WORTH_IT * now["packed_bytes"]:
            as_now = "it takes uncompressed" if now["codec"] == "none" else f"{now['codec']} takes"
            text = (
                f"{best['codec']} would store {short(topic)} in {100 * best['packed_bytes'] / now['packed_bytes']:.3g} "
                f"% of what {as_now} (sample of {now['sampled_records']:,.0f} records)"
            )
            verdicts.append(ReportVerdict("warn", f"Compression: {text}."))
        if len(verdicts) > 3:
            break
    return verdicts


@analysis(
    number="D4",
    title="Compression and what-if",
    question="How well are records compressed, and how well would other codecs compress them?",
    views={
        "batches": "topic string, partition int, last_offset bigint, compression string, batch_bytes int, "
        "record_count int",
        "records": "key binary, value binary, topic string, partition int, offset bigint",
    },
    needs="records in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def compression(batches: DataFrame, records: DataFrame) -> DataFrame:
    """Returns for each topic and codec the bytes stored with it, and the compressed size of a sample of the latest
    records.

    Returns:
        topic string, codec string, sampled_records long, plain_bytes long, packed_bytes long, ratio double (packed
        divided by plain), stored_bytes long, stored_records long (with that codec), topic_bytes long
    """
    sample = run(SAMPLE_SQL, records=records, batches=batches)
    sampled = map_groups(sample, "topic", repacked, SAMPLED_SCHEMA)
    return run(SQL, batches=batches, sampled=sampled)
