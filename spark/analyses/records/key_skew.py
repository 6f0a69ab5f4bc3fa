"""D3: frequent keys, the number of distinct keys, and keys that occur in two partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.spark.analyses.analysis import (
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    run,
)
from trimaran.spark.analyses.plots import bars, nothing, short
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = imported_later("pandas")

TOP = 20
NAME_BYTES = 40  # the first characters of a key, which name it
HEX_BYTES = 16  # the first bytes of a key that is not text
TOPIC_LETTERS, KEY_LETTERS = 18, 16  # characters of a label with topic and key
# the share of a topic's records with one key: one partition and one consumer take them all
HEAVY_SHARE = 0.2

EMPTY, NO_KEY = "(empty key)", "(no key)"
# A name that was cut may end within a character, which has at most four bytes.
CUTS = ", ".join(
    f"try_validate_utf8(CAST(substring(name, 1, {NAME_BYTES - cut}) AS STRING))" for cut in range(4)
)
TEXT = f"CASE WHEN is_longer THEN coalesce({CUTS}) ELSE try_validate_utf8(CAST(name AS STRING)) END"

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
    SELECT *, {TEXT} AS text, row_number() OVER (PARTITION BY topic ORDER BY records DESC, name, hash) AS rank
    FROM keyed WHERE name IS NOT NULL
  ) WHERE rank <= {TOP}
)
SELECT topic, r.rank,
       CASE WHEN length(r.name) = 0 THEN '{EMPTY}'
            WHEN r.text IS NOT NULL AND NOT r.text RLIKE r'[\\x00-\\x1f\\x7f-\\x9f]'
              THEN concat(r.text, CASE WHEN is_longer THEN '…' ELSE '' END)
            ELSE concat('0x', hex(substring(r.name, 1, {HEX_BYTES})),
                        CASE WHEN length(r.name) > {HEX_BYTES} THEN '…' ELSE '' END) END AS key,
       r.records, r.records / t.topic_records AS share, r.low != r.high AS on_two, t.topic_records, t.null_keys,
       t.distinct_keys, t.on_two_partitions
FROM topics t LEFT JOIN heaviest r USING (topic)
ORDER BY share DESC NULLS LAST, topic, rank
"""


def plot(frame: Rows) -> Figure:
    """Draws the most frequent keys of all topics, and the records without a key."""
    keyed = frame[frame["rank"].notna()]
    if keyed.empty:
        return nothing("no record has a key")
    topics = frame.drop_duplicates("topic")
    without = topics[topics["null_keys"] > 0]
    without = without.assign(key=NO_KEY, share=without["null_keys"] / without["topic_records"])
    shown = pd.concat([keyed, without]).sort_values("share", ascending=False, kind="stable")
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
            f"{count_text(worst['on_two_partitions'], 'key')} of {short(worst['topic'])} in more than one partition: "
            "the order of the records is lost (partitions were added, or producers partition differently)"
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
