"""M8: the distribution of leaders and replicas over brokers, and the share of partitions with the preferred leader,
over time.
"""

from __future__ import annotations

from trimaran.spark.analyses.analysis import DataFrame, Figure, ReportVerdict, Rows, analysis, run
from trimaran.spark.analyses.buckets import in_window, window_of
from trimaran.spark.analyses.plots import lines, nothing

STEPS = 48
SKEW_MAX = 1.3
PREFERRED_MIN = 90.0
AT_END = -1  # used instead of a time for the state at the end of the log

SQL = f"""
WITH steps AS (
  SELECT explode(transform(sequence(0, {STEPS}),
           i -> :low_ms + floor((:high_ms - :low_ms) * i / {STEPS}))) AS at_ms
), held AS (
  SELECT s.at_ms, h.leader, h.leader = h.replicas[0] AS preferred, h.replicas
  FROM steps s JOIN {{partition_history}} h
    ON unix_millis(h.from_ts) <= s.at_ms AND (h.to_ts IS NULL OR unix_millis(h.to_ts) > s.at_ms)
  WHERE h.state != 'deleted'
  UNION ALL
  SELECT {AT_END}, leader, leader = replicas[0], replicas FROM {{partition_history}}
  WHERE to_offset IS NULL AND state != 'deleted'
), led AS (
  SELECT at_ms, leader AS broker, count(*) AS leaders,
         sum(CASE WHEN preferred THEN 1 ELSE 0 END) AS preferred
  FROM held WHERE leader IS NOT NULL GROUP BY 1, 2
), kept AS (
  SELECT at_ms, explode(replicas) AS broker FROM held
), replicated AS (
  SELECT at_ms, broker, count(*) AS replicas FROM kept GROUP BY 1, 2
)
SELECT at_ms = {AT_END} AS is_end, CASE WHEN at_ms != {AT_END} THEN timestamp_millis(at_ms) END AS ts, broker,
       coalesce(leaders, 0) AS leaders, replicas,
       coalesce(preferred, 0) AS preferred,
       coalesce(leaders, 0) / nullif(avg(coalesce(leaders, 0)) OVER (PARTITION BY at_ms), 0) AS to_mean
FROM replicated LEFT JOIN led USING (at_ms, broker)
ORDER BY is_end DESC, ts DESC, broker
"""


def plot(frame: Rows) -> Figure:
    """Draws the leaders of each broker over time."""
    if frame.empty:
        return nothing("no partition in the log")
    frame = frame[~frame["is_end"]]
    named = frame.assign(name="broker " + frame["broker"].astype(str)).sort_values("ts")
    return lines(named, "leaders", "name", y_title="partitions led")


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    now = frame[frame["is_end"]]
    leaders = int(now["leaders"].sum())
    if not leaders:
        return [
            ReportVerdict(
                "info", "Leader balance: no partition has a leader at the end of the log."
            )
        ]
    worst = now.loc[now["to_mean"].idxmax()]
    percent = 100 * now["preferred"].sum() / leaders
    even = worst["to_mean"] <= SKEW_MAX and percent >= PREFERRED_MIN
    text = (
        f"at the end broker {worst['broker']} leads {worst['leaders']:,} of {leaders:,} partitions, "
        f"{worst['to_mean']:.2f} × the mean; {percent:.4g} % are led by their preferred broker"
    )
    return [ReportVerdict("ok" if even else "warn", f"Leader balance: {text}.")]


@analysis(
    number="M8",
    title="Leader balance",
    question="Do all brokers lead about the same number of partitions, and do preferred replicas lead?",
    views={
        "partition_history": "from_ts timestamp, to_ts timestamp, to_offset bigint, leader int, "
        "replicas array<int>, state string"
    },
    needs="partitions in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def leader_balance(partition_history: DataFrame) -> DataFrame:
    """Returns leaders and replicas of each broker at the end of the log and at regular times, the latest first.

    Returns:
        is_end boolean, ts timestamp (null at the end), broker int, leaders long, replicas long, preferred long (its
        leaderships of partitions whose first replica it is), to_mean double (its leaders divided by the mean of all
        brokers)
    """
    window = window_of(partition_history, "from_ts")
    return run(in_window(SQL, window), partition_history=partition_history)
