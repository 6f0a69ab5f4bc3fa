"""M9: partitions whose replicas span fewer racks than possible, and partitions that would be offline after the loss of
a rack.
"""

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
from trimaran.spark.analyses.plots import GREY, RED, bars, nothing, short

ROWS = 200

SQL = f"""
WITH brokers AS (
  SELECT broker_id, rack FROM {{metadata_image}} WHERE kind = 'broker'
), partitions AS (
  SELECT topic, partition, size(replicas) AS factor, replicas FROM {{metadata_image}} WHERE kind = 'partition'
), placed AS (
  SELECT topic, partition, factor, broker FROM partitions LATERAL VIEW explode(replicas) AS broker
), spanned AS (
  SELECT topic, partition, any_value(factor) AS factor, count(DISTINCT rack) AS racks, count(rack) AS known
  FROM placed LEFT JOIN brokers ON broker_id = broker GROUP BY topic, partition
), totals AS (
  SELECT count(DISTINCT rack) AS racks, count(*) AS brokers FROM brokers
), judged AS (
  SELECT s.*, least(s.factor, t.racks) AS possible, t.racks AS all_racks FROM spanned s CROSS JOIN totals t
), lost AS (
  SELECT rack, topic, partition, count(*) AS gone, any_value(factor) AS factor
  FROM placed JOIN brokers ON broker_id = broker WHERE rack IS NOT NULL GROUP BY rack, topic, partition
)
(SELECT 'topic' AS kind, topic AS name, count(*) AS partitions,
        sum(CASE WHEN racks < possible THEN 1 ELSE 0 END) AS exposed,
        min(racks) AS racks_min, any_value(all_racks) AS all_racks
 FROM judged GROUP BY topic ORDER BY exposed DESC, name LIMIT {ROWS})
UNION ALL
SELECT 'rack', rack, count(*), sum(CASE WHEN gone = factor THEN 1 ELSE 0 END), NULL, NULL FROM lost GROUP BY rack
UNION ALL
SELECT 'all', NULL, count(*), sum(CASE WHEN racks < possible THEN 1 ELSE 0 END), min(racks), max(all_racks)
FROM judged HAVING count(*) > 0
"""


def plot(frame: Rows) -> Figure:
    """Draws the partitions that would be offline after the loss of each rack."""
    racks = frame[frame["kind"] == "rack"].sort_values("exposed", ascending=False)
    if racks.empty:
        return nothing("brokers tell no racks (broker.rack)")
    rest = racks["partitions"] - racks["exposed"]
    series = {"lose all replicas": racks["exposed"], "lose some": rest}
    colours = {"lose all replicas": RED, "lose some": GREY}
    # a number alone would be an axis of numbers to the reader
    names = [f"rack {name}" if name.isdecimal() else name for name in racks["name"]]
    return bars(names, series, x_title="partitions, if this rack is lost", colours=colours)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    total = frame[frame["kind"] == "all"]
    if total.empty:
        return []
    one = total.iloc[0]
    if not one["all_racks"]:
        return [ReportVerdict("info", "Racks: not applicable: no broker has a rack (broker.rack).")]
    if not one["exposed"]:
        text = f"every partition is in as many of the {one['all_racks']:.0f} racks as it could"
        return [ReportVerdict("ok", f"Racks: {text}.")]
    worst = frame[frame["kind"] == "topic"].iloc[0]
    text = (
        f"{one['exposed']:,} of {count_text(one['partitions'], 'partition')} in fewer racks than they could be; "
        f"{short(worst['name'])} has the most, {worst['exposed']:,}"
    )
    return [ReportVerdict("warn", f"Racks: {text}.")]


@analysis(
    number="M9",
    title="Rack exposure",
    question="Which partitions are in fewer racks than they could be, and what would fail with a rack?",
    views={
        "metadata_image": "kind string, topic string, partition int, replicas array<int>, broker_id int, rack string"
    },
    needs="partitions in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def rack_exposure(metadata_image: DataFrame) -> DataFrame:
    """Returns by topic and rack the number of partitions in too few racks.

    Returns:
        kind string (topic, rack, all), name string, partitions long (rack: those with a replica there), exposed long
        (topic, all: those in fewer racks than possible; rack: those without a replica elsewhere), racks_min long,
        all_racks long (racks of brokers)
    """
    return run(SQL, metadata_image=metadata_image)
