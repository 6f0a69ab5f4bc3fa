"""M7: the recovery after each loss of a broker: the times until its partitions had leaders, it was back, and its
replicas were in sync.
"""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    SECONDS_MAX,
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    ids_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.plots import AMBER, BLUE, RED, bars, nothing

ROWS = 500
LEADERLESS_SECONDS_MAX = 5.0

SQL = f"""
WITH losses AS (
  SELECT broker_id, from_offset, from_ts AS lost_ts, cause,
         lead(from_offset) OVER (PARTITION BY broker_id ORDER BY from_offset) AS next_offset
  FROM {{broker_history}}
  WHERE state IN ('fenced', 'controlled_shutdown', 'unregistered')
    AND prev_state = 'active' AND cause != 'changed'
), windows AS (
  SELECT *, coalesce(next_offset, 9223372036854775807) AS end_offset FROM losses
), away AS (
  SELECT w.broker_id, w.from_offset, w.lost_ts, coalesce(min(b.from_offset), w.end_offset) AS end_offset
  FROM windows w LEFT JOIN {{broker_history}} b
    ON b.broker_id = w.broker_id AND b.state = 'active' AND b.from_offset > w.from_offset
       AND b.from_offset < w.end_offset
  GROUP BY w.broker_id, w.from_offset, w.lost_ts, w.end_offset
), moved AS (
  SELECT w.broker_id, w.from_offset, count(*) AS leaders, min(l.ts) AS first_leader_ts, max(l.ts) AS last_leader_ts,
         sum(CASE WHEN l.leader IS NULL THEN 1 ELSE 0 END) AS without_leader
  FROM away w JOIN {{leader_changes}} l
    ON l.prev_leader = w.broker_id AND l.offset >= w.from_offset - 100000 AND l.offset < w.end_offset
       AND l.ts >= w.lost_ts
       AND l.ts <= w.lost_ts + INTERVAL 10 MINUTES
  GROUP BY 1, 2
), led_again AS (
  SELECT w.broker_id, w.from_offset, max(r.ts) AS led_again_ts, count(*) AS led_again
  FROM away w
  JOIN {{leader_changes}} n ON n.prev_leader = w.broker_id AND n.leader IS NULL AND n.ts >= w.lost_ts
       AND n.offset < w.end_offset
  JOIN {{leader_changes}} r ON r.topic = n.topic AND r.partition = n.partition AND r.prev_leader IS NULL
       AND r.leader_epoch = n.leader_epoch + 1
  GROUP BY 1, 2
), back AS (
  SELECT w.broker_id, w.from_offset, min(b.from_ts) AS back_ts, count(*) AS times
  FROM windows w JOIN {{broker_history}} b
    ON b.broker_id = w.broker_id AND b.state = 'active' AND b.from_offset > w.from_offset
  GROUP BY 1, 2
), in_sync AS (
  SELECT w.broker_id, w.from_offset, max(i.ts) AS in_sync_ts, count(*) AS replicas
  FROM windows w JOIN {{isr_changes}} i
    ON array_contains(i.added, w.broker_id) AND i.offset > w.from_offset AND i.offset < w.end_offset
  GROUP BY 1, 2
)
SELECT w.broker_id, w.lost_ts, coalesce(unix_millis(w.lost_ts) >= 0, false) AS is_timed, w.cause,
       coalesce(m.leaders, 0) AS leaders,
       coalesce(m.without_leader, 0) AS without_leader,
       greatest(coalesce(m.without_leader, 0) - coalesce(a.led_again, 0), 0) AS left_without_leader,
       (unix_millis(m.first_leader_ts) - unix_millis(w.lost_ts)) / 1000D AS first_leader_seconds,
       (unix_millis(greatest(m.last_leader_ts, a.led_again_ts)) - unix_millis(w.lost_ts)) / 1000D
         AS all_leaders_seconds,
       (unix_millis(b.back_ts) - unix_millis(w.lost_ts)) / 1000D AS back_seconds, b.times IS NOT NULL AS is_back,
       (unix_millis(i.in_sync_ts) - unix_millis(w.lost_ts)) / 1000D AS in_sync_seconds,
       coalesce(i.replicas, 0) AS replicas, count(*) OVER () AS losses
FROM windows w
LEFT JOIN moved m USING (broker_id, from_offset)
LEFT JOIN led_again a USING (broker_id, from_offset)
LEFT JOIN back b USING (broker_id, from_offset)
LEFT JOIN in_sync i USING (broker_id, from_offset)
ORDER BY w.from_offset DESC LIMIT {ROWS}
"""


CAUSES = {"controlled_shutdown": "shut down", "unregistered": "removed"}  # labels must be short
STEPS = {
    "all leaders moved": "all_leaders_seconds",
    "broker back": "back_seconds",
    "in sync": "in_sync_seconds",
}


def plot(frame: Rows) -> Figure:
    """Draws a waterfall for each loss: the steps of the recovery in order."""
    if frame.empty:
        return nothing("no broker that served was lost")
    names = [
        f"broker {b} {CAUSES.get(c, c)}{', no time' if t != t else format(t, ' %m-%d %H:%M:%S')}"
        for b, t, c in zip(frame["broker_id"], frame["lost_ts"], frame["cause"], strict=True)
    ]
    series, reached = {}, frame["lost_ts"].map(lambda _: 0.0)
    for label, column in STEPS.items():
        lasted = frame[column].where(frame[column] <= SECONDS_MAX)
        step = (lasted - reached).clip(lower=0).fillna(0)
        series[label] = step
        reached = reached + step
    if not any(step.any() for step in series.values()):
        left = frame["left_without_leader"].sum()
        led = (
            f"{count_text(left, 'partition')} without a leader since"
            if left
            else "leaders moved at once"
        )
        return nothing(f"{led}; no broker that was lost came back")
    colours = {"all leaders moved": RED, "broker back": AMBER, "in sync": BLUE}
    return bars(names, series, x_title="seconds since the loss", colours=colours)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return [ReportVerdict("ok", "Recovery: no broker that served was lost.")]
    verdicts = [_leaders_again(frame)]
    synced = frame["in_sync_seconds"].dropna()
    synced = synced[synced <= SECONDS_MAX]
    if len(synced):
        told = f"median {seconds_text(float(synced.median()))}, longest {seconds_text(float(synced.max()))}"
        verdicts.append(ReportVerdict("info", f"Until the last replica was in sync: {told}."))
    latest = frame.drop_duplicates("broker_id")
    gone = latest[~latest["is_back"]]
    if len(gone):
        told = ids_text("broker", gone["broker_id"])
        verdicts.append(ReportVerdict("info", f"Lost last and not back: {told}."))
    return verdicts


def _leaders_again(frame: Rows) -> ReportVerdict:
    """Returns verdicts about the time until partitions had leaders again."""
    losses, left = int(frame["losses"].iloc[0]), frame["left_without_leader"].sum()
    text = f"Recovery: {count_text(losses, 'broker loss')}"
    if left:
        text += f"; {count_text(left, 'partition')} lost their leader"
        return ReportVerdict(
            "info", f"{text} up to the end of the log: were the brokers shut down?"
        )
    untimed = int((~frame["is_timed"]).sum())
    if untimed == len(frame):
        text += "; no clock shows when: how soon their partitions had leaders again cannot be told"
        return ReportVerdict("info", f"{text}.")
    if not untimed and not frame["leaders"].any():
        return ReportVerdict("ok", f"{text}; no partition was led there.")
    leaders = frame["all_leaders_seconds"].dropna()
    slowest = float(leaders.max()) if len(leaders) else 0.0
    when = f"after at most {seconds_text(slowest)}" if slowest else "at once"
    whose = (
        f"of {untimed:,} no clock shows when; the partitions of the others"
        if untimed
        else "all their partitions"
    )
    is_slow = slowest > LEADERLESS_SECONDS_MAX
    return ReportVerdict("warn" if is_slow else "ok", f"{text}; {whose} had leaders again {when}.")


@analysis(
    number="M7",
    title="Recovery after broker loss",
    question="How soon after a broker was lost did its partitions have leaders again, and its replicas catch up?",
    views={
        "broker_history": "broker_id int, from_offset bigint, from_ts timestamp, state string, prev_state string, "
        "cause string",
        "leader_changes": "offset bigint, ts timestamp, topic string, partition int, prev_leader int, leader int, "
        "leader_epoch int",
        "isr_changes": "offset bigint, ts timestamp, added array<int>",
    },
    needs="brokers in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def recovery_waterfall(
    broker_history: DataFrame, leader_changes: DataFrame, isr_changes: DataFrame
) -> DataFrame:
    """Returns one row for each loss of a broker that served, the latest first; seconds count from the loss.

    Returns:
        broker_id int, lost_ts timestamp, is_timed boolean (its time is known; else only is_back follows), cause string
        (fenced, controlled_shutdown, unregistered), leaders long (leaderships that moved away from it), without_leader
        long (of these, partitions that had no leader for a time), left_without_leader long (of these, partitions
        without a leader up to the end), first_leader_seconds double, all_leaders_seconds double (every one of them had
        a leader), back_seconds double (null: it did not come back), is_back boolean, in_sync_seconds double (its last
        replica was in sync), replicas long (the number that came back), losses long (the total)
    """
    return run(
        SQL, broker_history=broker_history, leader_changes=leader_changes, isr_changes=isr_changes
    )
