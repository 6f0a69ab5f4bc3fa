"""D3: frequent keys, the number of distinct keys, and keys that occur in two partitions."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import DataFrame, Figure, ReportVerdict, Rows, analysis, run
from trimaran.spark.analyses.plots import ROWS_SHOWN, bars, nothing, short

TOP = 20
NAME_BYTES = 40  # the first characters of a key, which name it
HEX_BYTES = 16  # the first bytes of a key that is not text
TOPIC_LETTERS, KEY_LETTERS = 18, 16  # characters of a label with topic and key
# the share of a topic's records with one key: one partition and one consumer take them all
HEAVY_SHARE = 0.2

# One pass: the hash of a key identifies it and its first bytes name it; both are grouping keys. An aggregate of names
# would make Spark sort all records instead of hashing them, and whole keys may be large.
SQL = f"""
WITH keyed AS (
  SELECT topic, xxhash64(key) AS hash, substring(key, 1, {NAME_BYTES}) AS name,
         length(key) > {NAME_BYTES} AS is_longer, count(*) AS records,
         min(partition) AS low, max(partition) AS high
  FROM {{records}} GROUP BY ALL
), topics AS (
  SELECT topic, sum(records) AS topic_records, coalesce(sum(records) FILTER (WHERE name IS NULL), 0) AS null_keys,
         count(name) AS distinct_keys, count_if(low != high AND name IS NOT NULL) AS on_two_partitions
  FROM keyed GROUP BY topic
), heaviest AS (
  SELECT * FROM (
    SELECT *, row_number() OVER (PARTITION BY topic ORDER BY records DESC, hash) AS rank
    FROM keyed WHERE name IS NOT NULL
  ) WHERE rank <= {TOP}
)
SELECT topic, r.rank,
       CASE WHEN CAST(r.name AS STRING) RLIKE '^[ -~]*$'
              THEN concat(CAST(r.name AS STRING), CASE WHEN is_longer THEN '…' ELSE '' END)
            ELSE concat('0x', hex(substring(r.name, 1, {HEX_BYTES})),
                        CASE WHEN length(r.name) > {HEX_BYTES} THEN '…' ELSE '' END) END AS key,
       r.records, r.records / t.topic_records AS share, r.low != r.high AS on_two, t.topic_records, t.null_keys,
       t.distinct_keys, t.on_two_partitions
FROM topics t LEFT JOIN heaviest r USING (topic)
ORDER BY share DESC NULLS LAST, topic, rank
"""


def plot(frame: Rows) -> Figure:
    """Draws the most frequent keys of all topics."""
    shown = frame[frame["rank"].notna()].head(ROWS_SHOWN)
    if shown.empty:
        return nothing("no record has a key")
    pairs = list(zip(shown["topic"], shown["key"], strict=True))
    return bars(
        [f"{short(topic, TOPIC_LETTERS)}: {short(key, KEY_LETTERS)}" for topic, key in pairs],
        {"share of the topic's records, %": 100 * shown["share"]},
        x_title="% of the topic's records",
        hover=[f"{topic}: {key}" for topic, key in pairs],
    )


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    keyed = frame[frame["rank"].notna()]
    if keyed.empty:
        return [ReportVerdict("info", "Keys: not applicable: no record has a key.")]
    one = keyed.iloc[0]
    heavy = one["share"] >= HEAVY_SHARE and one["distinct_keys"] > 1 / HEAVY_SHARE
    text = (
        f"the heaviest key, {one['key']} of {short(one['topic'])}, has {100 * one['share']:.3g} % of its topic's "
        f"records, among {one['distinct_keys']:,.0f} distinct key{'' if one['distinct_keys'] == 1 else 's'}"
    )
    verdicts = [ReportVerdict("warn" if heavy else "ok", f"Keys: {text}.")]
    topics = frame.drop_duplicates("topic")
    moved = topics[topics["on_two_partitions"] > 0]
    if len(moved):
        worst = moved.loc[moved["on_two_partitions"].idxmax()]
        text = (
            f"{worst['on_two_partitions']:,.0f} keys of {short(worst['topic'])} lie in more than one partition: "
            f"their order is lost (partitions were added, or producers partition differently)"
        )
        verdicts.append(ReportVerdict("warn", f"Keys: {text}."))
    return verdicts


@analysis(
    number="D3",
    title="Key skew",
    question="Do few keys carry most records, and does each key stay in one partition?",
    views={"records": "key binary, topic string, partition int"},
    needs="records in data logs",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def key_skew(records: DataFrame) -> DataFrame:
    """Returns the most frequent keys of each topic in descending order. Two keys are the same if their 64-bit hashes
    and their first bytes are equal.

    Returns:
        topic string, rank int (null: no record has a key), key string (its beginning, as text or hexadecimal), records
        long, share
        double (of the topic's records), on_two boolean (it occurs in more than one partition), and for the topic:
        topic_records long, null_keys long, distinct_keys long, on_two_partitions long (keys)
    """
    return run(SQL, records=records)
