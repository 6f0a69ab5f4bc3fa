"""D9: the duration of transactions, the number of aborted ones, and open ones, which block read_committed consumers."""

from __future__ import annotations

from trimaran.spark.analyses.analysis import (
    SECONDS_MAX,
    YEARS_MS,
    DataFrame,
    Figure,
    ReportVerdict,
    Rows,
    analysis,
    count_text,
    doubled_text,
    run,
    seconds_text,
)
from trimaran.spark.analyses.plots import GREEN, RED, bars, nothing, short

ROWS = 300
UNKNOWN_MS = float("inf")  # the class of transactions whose clocks are years off

SQL = f"""
WITH steps AS (
  SELECT *, last_value(start_ts, true) OVER (PARTITION BY transactional_id ORDER BY offset
              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS began_ts,
         lead(offset) OVER (PARTITION BY transactional_id ORDER BY offset) AS next_offset,
         max(coalesce(update_ts, timestamp)) OVER () AS end_ts
  FROM {{transactions}}
), ended AS (
  SELECT state, CASE WHEN unix_millis(update_ts) - unix_millis(began_ts) <= {YEARS_MS}
                     THEN greatest(unix_millis(update_ts) - unix_millis(began_ts), 1) END AS ms FROM steps
  WHERE state IN ('CompleteCommit', 'CompleteAbort')
), still AS (
  SELECT transactional_id, producer_id, producer_epoch, state, coalesce(start_ts, began_ts, update_ts) AS since_ts,
         (unix_millis(end_ts) - unix_millis(coalesce(start_ts, began_ts, update_ts))) / 1000D AS seconds, timeout_ms,
         size(partitions) AS partitions
  FROM steps WHERE next_offset IS NULL AND is_open
)
SELECT 'ended' AS kind, state, CAST(pow(2, floor(log2(ms))) AS BIGINT) AS ms_from, count(*) AS transactions,
       max(ms) / 1000D AS seconds, CAST(NULL AS STRING) AS transactional_id, CAST(NULL AS BIGINT) AS producer_id,
       CAST(NULL AS TIMESTAMP) AS since_ts, CAST(NULL AS INT) AS timeout_ms, CAST(NULL AS INT) AS partitions,
       CAST(NULL AS BIGINT) AS all_open
FROM ended GROUP BY state, ms_from
UNION ALL
(SELECT 'open', state, NULL, 1, seconds, transactional_id, producer_id, since_ts, timeout_ms, partitions,
        count(*) OVER ()
 FROM still ORDER BY seconds DESC, transactional_id LIMIT {ROWS})
UNION ALL
SELECT 'ids', NULL, NULL, count(DISTINCT transactional_id), NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM {{transactions}} HAVING count(*) > 0
"""


def plot(frame: Rows) -> Figure:
    """Draws the durations of transactions by outcome."""
    shown = frame[frame["kind"] == "ended"]
    if shown.empty:
        return nothing("no transaction has ended")
    shown = shown.assign(ms_from=shown["ms_from"].fillna(UNKNOWN_MS))
    sizes = sorted(shown["ms_from"].unique())
    names = [doubled_text(ms) for ms in sizes]
    series = {}
    for state, label in (("CompleteCommit", "committed"), ("CompleteAbort", "aborted")):
        rows = shown[shown["state"] == state].set_index("ms_from")["transactions"]
        series[label] = [float(rows.get(ms, 0)) for ms in sizes]
    colours = {"committed": GREEN, "aborted": RED}
    return bars(names, series, x_title="transactions", colours=colours)


def evaluate(frame: Rows) -> list[ReportVerdict]:
    ids = frame[frame["kind"] == "ids"]
    if ids.empty:
        return []
    ended = frame[frame["kind"] == "ended"].groupby("state")["transactions"].sum()
    committed, aborted = int(ended.get("CompleteCommit", 0)), int(ended.get("CompleteAbort", 0))
    total = committed + aborted
    text = f"{count_text(total, 'transaction')} of {count_text(ids['transactions'].iloc[0], 'id')} ended"
    if total:
        text += f", {100 * aborted / total:.3g} % aborted"
    verdicts = [ReportVerdict("info", f"Transactions: {text}.")]
    still = frame[frame["kind"] == "open"]
    if still.empty:
        return [*verdicts, ReportVerdict("ok", "Transactions: none is open at the end of the log.")]
    one = still.iloc[0]
    late = SECONDS_MAX * 1000 >= one["seconds"] * 1000 > one["timeout_ms"]
    text = (
        f"{count_text(one['all_open'], 'transaction')} open at the end of the log; {short(one['transactional_id'])} "
        f"for {seconds_text(one['seconds'])} ({one['state']}, {count_text(one['partitions'], 'partition')}): "
        f"read_committed consumers wait there"
    )
    if late:
        text += ", beyond its own timeout"
    return [*verdicts, ReportVerdict("bad" if late else "warn", f"Transactions: {text}.")]


@analysis(
    number="D9",
    title="Transactions",
    question="How long did transactions take, how many were aborted, and which block read_committed consumers?",
    views={
        "transactions": "offset bigint, timestamp timestamp, transactional_id string, producer_id bigint, "
        "producer_epoch int, state string, timeout_ms int, partitions array<string>, start_ts timestamp, "
        "update_ts timestamp, is_open boolean"
    },
    needs="transactional ids (__transaction_state)",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def open_transactions(transactions: DataFrame) -> DataFrame:
    """Returns transactions that ended, by outcome and duration, and those open at the end of the log, the oldest first.

    Returns:
        kind string (ended, open, ids), state string, ms_from long (ended: they took from this to twice as long),
        transactions long (ids: transactional ids), seconds double (ended: the longest; open: its age at the log's end),
        transactional_id string, producer_id long, since_ts timestamp, timeout_ms int, partitions int, all_open long
    """
    return run(SQL, transactions=transactions)
