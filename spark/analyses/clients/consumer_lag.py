"""D10: the lag of consumer groups over time, in records and seconds, and partitions that are stuck."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    YEARS_MS,
    DataFrame,
    Figure,
    ReportVerdict,
    Row,
    Rows,
    analysis,
    count_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.buckets import bucketed, in_window, window_of
from trimaran.spark.analyses.plots import lines, nothing, short

ROWS = 1000
GROUPS = 12
STUCK_SECONDS = 60.0
LAG_SECONDS_MAX = 60.0
KNOWN = "BETWEEN :low_ms AND :high_ms"
# The index of the first bucket.
BEFORE = "timestamp_millis(floor(:low_ms / :bucket_ms) * :bucket_ms)"

COMMITS_SQL = "SELECT coalesce(commit_ts, timestamp) AS ts FROM {group_offsets}"
SQL = f"""
WITH commits AS (
  SELECT group, topic, topic_partition AS partition, offset AS at, committed_offset,
         coalesce(commit_ts, timestamp) AS commit_ts, coalesce(max({bucketed("coalesce(commit_ts, timestamp)")})
           OVER (PARTITION BY group, topic, topic_partition ORDER BY offset), {BEFORE}) AS ts
  FROM {{group_offsets}}
), pairs AS (
  SELECT group, topic, partition, max_by(committed_offset, at) AS committed, max(commit_ts) AS last_commit_ts,
         count(committed_offset) AS commits
  FROM commits GROUP BY 1, 2, 3
), advanced AS (
  SELECT group, topic, partition, min(c.commit_ts) AS advanced_ts
  FROM commits c JOIN pairs p USING (group, topic, partition) WHERE c.committed_offset = p.committed GROUP BY 1, 2, 3
), buckets AS (
  SELECT topic, partition, {bucketed("max_timestamp")} AS own_ts, max(last_offset) + 1 AS end_offset FROM {{batches}}
  GROUP BY 1, 2, 3
), placed AS (
  SELECT topic, partition, end_offset,
         max(own_ts) OVER (PARTITION BY topic, partition ORDER BY end_offset) AS known_ts FROM buckets
), ends AS (
  SELECT topic, partition, coalesce(known_ts, {BEFORE}) AS ts, max(end_offset) AS end_offset FROM placed
  GROUP BY 1, 2, 3
), last_ends AS (
  SELECT topic, partition, max(end_offset) AS end_offset FROM ends GROUP BY 1, 2
), data_end AS (
  SELECT greatest((SELECT max(max_timestamp) FROM {{batches}} WHERE unix_millis(max_timestamp) {KNOWN}),
                  (SELECT max(commit_ts) FROM commits WHERE unix_millis(commit_ts) {KNOWN})) AS end_ts
), waiting AS (
  SELECT p.group, p.topic, p.partition, min_by(e.known_ts, e.end_offset) AS oldest_ts
  FROM pairs p JOIN placed e ON e.topic = p.topic AND e.partition = p.partition AND e.end_offset > p.committed
  GROUP BY 1, 2, 3
), now AS (
  SELECT p.*, a.advanced_ts, greatest(coalesce(l.end_offset, p.committed) - p.committed, 0) AS lag,
         CASE WHEN abs(unix_millis(w.oldest_ts) - unix_millis(p.last_commit_ts)) <= {YEARS_MS}
                AND d.end_ts >= w.oldest_ts
              THEN (unix_millis(d.end_ts) - unix_millis(w.oldest_ts)) / 1000D END AS lag_seconds,
         CASE WHEN unix_millis(p.last_commit_ts) - unix_millis(a.advanced_ts) <= {YEARS_MS}
              THEN (unix_millis(p.last_commit_ts) - unix_millis(a.advanced_ts)) / 1000D END AS still_seconds, d.end_ts,
         l.end_offset IS NULL AND p.committed > 0 AS is_unknown
  FROM pairs p LEFT JOIN last_ends l USING (topic, partition) LEFT JOIN advanced a USING (group, topic, partition)
  LEFT JOIN waiting w USING (group, topic, partition) CROSS JOIN data_end d WHERE p.committed >= 0
), largest AS (
  SELECT group FROM now GROUP BY group ORDER BY sum(lag) DESC, group LIMIT {GROUPS}
), chosen AS (
  SELECT n.group, n.topic, n.partition FROM now n JOIN largest USING (group)
), grid AS (
  SELECT ts FROM (SELECT ts FROM commits UNION SELECT ts FROM ends)
  WHERE unix_millis(ts) BETWEEN :low_ms - :bucket_ms AND :high_ms
), points AS (
  SELECT c.group, c.topic, c.partition, g.ts,
         last_value(k.committed, true) OVER w AS committed, last_value(e.end_offset, true) OVER w AS end_offset
  FROM chosen c CROSS JOIN grid g
  LEFT JOIN (SELECT group, topic, partition, ts, max_by(committed_offset, at) AS committed FROM commits
             GROUP BY 1, 2, 3, 4) k USING (group, topic, partition, ts)
  LEFT JOIN ends e USING (topic, partition, ts)
  WINDOW w AS (PARTITION BY c.group, c.topic, c.partition ORDER BY g.ts
               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
SELECT 'history' AS kind, group, CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, ts,
       sum(greatest(coalesce(end_offset, committed) - committed, 0)) AS lag, CAST(NULL AS DOUBLE) AS lag_seconds,
       CAST(NULL AS DOUBLE) AS still_seconds, CAST(NULL AS BIGINT) AS commits,
       CAST(NULL AS TIMESTAMP) AS last_commit_ts,
       CAST(NULL AS BIGINT) AS all_lag, CAST(NULL AS BIGINT) AS all_groups, CAST(NULL AS BIGINT) AS all_stuck,
       CAST(NULL AS BIGINT) AS all_unknown, CAST(NULL AS BIGINT) AS all_untimed
FROM points WHERE committed >= 0 GROUP BY group, ts
UNION ALL
(SELECT 'now', group, topic, partition, end_ts, lag, CASE WHEN lag > 0 THEN lag_seconds ELSE 0D END, still_seconds,
        commits, last_commit_ts, sum(lag) OVER (), size(collect_set(group) OVER ()),
        sum(CASE WHEN lag > 0 AND still_seconds >= {STUCK_SECONDS} THEN 1 ELSE 0 END) OVER (),
        sum(CASE WHEN is_unknown THEN 1 ELSE 0 END) OVER (),
        (SELECT count(*) FROM {{batches}} WHERE {bucketed("max_timestamp")} IS NULL)
 FROM now ORDER BY lag DESC, group, topic, partition LIMIT {ROWS})
ORDER BY kind DESC, lag DESC, group, ts
"""


def plot(frame: Rows) -> Figure:
    """Draws the lag of the groups over time."""
    shown = frame[frame["kind"] == "history"].sort_values("ts")
    if shown.empty:
        return nothing("no group has committed offsets of these topics")
    groups = frame["all_groups"].max()
    total = 0 if groups != groups else int(groups)
    return lines(shown, "lag", "group", y_title="records behind", total=total)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    now = frame[frame["kind"] == "now"]
    if now.empty:
        return []
    worst, told = now.iloc[0], _left_out(now.iloc[0])
    where = f"{short(worst['group'])} on {short(worst['topic'])}-{worst['partition']:.0f}"
    if not worst["all_lag"]:
        text = f"{count_text(worst['all_groups'], 'group')} consumed everything"
        if worst["all_unknown"]:
            return [ReportVerdict("info", f"Lag: {text} that is there."), *told]
        return [ReportVerdict("ok", f"Lag: all {text}."), *told]
    slow = float(now.loc[now["lag"] > 0, "lag_seconds"].max())
    waits = (
        f"the oldest unconsumed record has waited {seconds_text(slow)}"
        if slow == slow
        else "how long the oldest record waits cannot be told: its time is none, or years off"
    )
    text = (
        f"{worst['all_lag']:,.0f} records in {count_text(worst['all_groups'], 'group')}; the most, "
        f"{worst['lag']:,.0f}, {where}; {waits}"
    )
    verdicts = [ReportVerdict("warn" if slow > LAG_SECONDS_MAX else "info", f"Lag: {text}.")]
    if worst["all_stuck"]:
        stuck = now[(now["lag"] > 0) & (now["still_seconds"] >= STUCK_SECONDS)].iloc[0]
        text = (
            f"{count_text(worst['all_stuck'], 'partition')} with a lag and without new commits: "
            f"{short(stuck['group'])} on {short(stuck['topic'])}-{stuck['partition']:.0f} for "
            f"{seconds_text(stuck['still_seconds'])}"
        )
        verdicts.append(ReportVerdict("bad", f"Stuck: {text}."))
    return verdicts + told


def _left_out(one: Row) -> list[ReportVerdict]:
    """Returns verdicts about partitions without records, and about batches that the figure shows too early."""
    verdicts = []
    if one["all_unknown"]:
        text = f"of {count_text(one['all_unknown'], 'partition')} with commits no records are there"
        verdicts.append(ReportVerdict("info", f"Lag: {text}: how far behind is unknown."))
    if one["all_untimed"]:
        text = f"{count_text(one['all_untimed'], 'batch')} without a time, or with one far from all others"
        text += ", in the figure too early"
        verdicts.append(ReportVerdict("info", f"Lag: {text}."))
    return verdicts


@analysis(
    number="D10",
    title="Consumer lag",
    question="How far are consumer groups behind, over time, and which partitions are stuck?",
    views={
        "group_offsets": "offset bigint, timestamp timestamp, group string, topic string, topic_partition int, "
        "committed_offset bigint, commit_ts timestamp",
        "batches": "topic string, partition int, last_offset bigint, max_timestamp timestamp",
    },
    needs="commits of consumer groups (__consumer_offsets)",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def consumer_lag(group_offsets: DataFrame, batches: DataFrame) -> DataFrame:
    """Returns the lag over time of the groups that are furthest behind, and of each partition at the end of the data.

    Times are those of commits and batches; the end of a partition at a time is that of its batches up to then. A batch
    or commit without a time, or with a time far from all others, takes the time of the previous one.

    Returns:
        kind string (now, history), group string, topic string, partition int (now), ts timestamp (history: start of its
        bucket; now: the data's end), lag long (records), lag_seconds double (age of the first record not consumed;
        null: unknown), still_seconds double (for how long the group kept committing the same offset), commits long,
        last_commit_ts timestamp, and over all groups: all_lag long, all_groups int, all_stuck long (partitions with a
        lag whose commits do not move), all_unknown long (partitions with commits but without batches: their lag counts
        as 0), all_untimed long (batches without a time, or with a time far from all others)
    """
    tables = {"group_offsets": group_offsets, "batches": batches}
    commits = run(COMMITS_SQL, **tables)
    both = run(f"{COMMITS_SQL} UNION ALL SELECT max_timestamp FROM {{batches}}", **tables)
    window = window_of(both, "ts", near=commits)  # the times of commits are from brokers' clocks
    return run(in_window(SQL, window), **tables)
