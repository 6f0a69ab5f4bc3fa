"""D11: the rebalances of consumer groups, their frequency, and the numbers of members."""

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
from trimaran.spark.analyses.buckets import bucketed, in_window, undated, window_of
from trimaran.spark.analyses.plots import heat, nothing, short

GROUPS = 20
MANY = 5  # a group that forms may need this number of rebalances
PER_HOUR_MAX = 10.0

SQL = f"""
WITH generations AS (
  SELECT group, protocol, generation, min(timestamp) AS at, max(coalesce(members, 0)) AS members
  FROM {{group_members}}
  WHERE event IN ('generation', 'empty', 'epoch') AND generation IS NOT NULL GROUP BY 1, 2, 3
), groups AS (
  SELECT group, any_value(protocol) AS protocol, count(*) AS rebalances, min(at) AS first_ts, max(at) AS last_ts,
         max(members) AS members_max, max_by(members, at) AS members_at_end FROM generations GROUP BY group
), largest AS (
  SELECT * FROM groups ORDER BY rebalances DESC, group LIMIT {GROUPS}
)
SELECT 'group' AS kind, :bucket_ms AS bucket_ms, group, protocol, first_ts AS ts, last_ts, rebalances,
       members_max, members_at_end,
       (SELECT count(*) FROM groups) AS all_groups, (SELECT sum(rebalances) FROM groups) AS all_rebalances
FROM largest
UNION ALL
SELECT 'time', :bucket_ms, g.group, g.protocol, {bucketed("at")}, NULL, count(*), max(g.members), NULL, NULL, NULL
FROM generations g JOIN largest USING (group) GROUP BY 1, 2, 3, 4, 5
ORDER BY kind, rebalances DESC, group, ts
"""


def plot(frame: Rows) -> Figure:
    """Draws rebalances by group and time."""
    shown = frame[frame["kind"] == "time"]
    if shown.empty:
        return nothing("no group has formed")
    width = float(shown["bucket_ms"].iloc[0])
    return heat(shown, "group", "rebalances", title="rebalances", width_ms=width)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    groups = frame[frame["kind"] == "group"]
    if groups.empty:
        return []
    one = groups.iloc[0]
    seconds = (one["last_ts"] - one["ts"]).total_seconds()
    text = (
        f"{count_text(one['all_rebalances'], 'rebalance')} of {count_text(one['all_groups'], 'group')}; "
        f"{short(one['group'])} had the most, {one['rebalances']:,}, with up to "
        f"{count_text(one['members_max'], 'member')}"
    )
    hours = max(seconds / 3600, 1 / 60)
    often = one["rebalances"] > MANY and seconds > 0 and one["rebalances"] / hours > PER_HOUR_MAX
    return [
        ReportVerdict("warn" if often else "info", f"Rebalances: {text}."),
        *undated(frame[frame["kind"] == "time"], "rebalances", "rebalance", "Rebalances"),
    ]


@analysis(
    number="D11",
    title="Rebalances",
    question="How often did consumer groups rebalance, and with how many members?",
    views={
        "group_members": "timestamp timestamp, group string, protocol string, event string, generation int, members int"
    },
    needs="members of consumer groups (__consumer_offsets)",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def rebalances(group_members: DataFrame) -> DataFrame:
    """Returns the rebalances of the groups with the most rebalances, in total and by time.

    Each generation (or epoch, KIP-848) of a group is one rebalance. Compaction removes old generations.

    Returns:
        kind string (group, time), bucket_ms int, group string, protocol string, ts timestamp (group: the first; time:
        start of its bucket; null: no time, or a time far from all others), last_ts timestamp, rebalances long,
        members_max int, members_at_end int, all_groups long, all_rebalances long
    """
    window = window_of(group_members, "timestamp")
    return run(in_window(SQL, window), group_members=group_members)
