"""M16: compares ZooKeeper with the metadata log at the same offset, and measures the delay of the znodes.

`/migration` holds the offset up to which the tree was in step; the histories give the state there. Partitions, brokers
and configs of topics are compared; `trimaran zk verify` compares every znode of a running cluster.
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
    seconds_text,
)
from trimaran.spark.analyses.plots import POINTS_MAX, figure, line_style, nothing, table

LATE_SECONDS = 5.0  # a working mirror takes a few hundredths of a second

SQL = f"""
WITH shown AS (
  SELECT CAST(get_json_object(text, '$.kraft_metadata_offset') AS BIGINT) AS offset, created_ms AS began_ms
  FROM {{znodes}} WHERE path = '/migration'
), standing AS (
  SELECT * FROM {{partition_history}} CROSS JOIN shown
  WHERE from_offset <= shown.offset AND (to_offset IS NULL OR to_offset > shown.offset) AND state != 'deleted'
), set_configs AS (
  SELECT resource_name AS topic, concat(name, '=', max_by(new_value, c.offset)) AS pair, max(ts) AS ts
  FROM {{config_history}} c CROSS JOIN shown WHERE resource_type = 'topic' AND c.offset <= shown.offset
  GROUP BY resource_name, name HAVING max_by(new_value, c.offset) IS NOT NULL
), expected AS (
  SELECT 'partition' AS kind, concat('/brokers/topics/', topic, '/partitions/', partition, '/state') AS path,
         from_ts AS ts, concat('leader ', coalesce(leader, -1), ', epoch ', leader_epoch, ', ISR ',
                               array_join(sort_array(isr), ' ')) AS told
  FROM standing
  UNION ALL
  SELECT 'config', concat('/config/topics/', topic), max(ts), array_join(sort_array(collect_list(pair)), ', ')
  FROM (SELECT DISTINCT topic FROM standing) LEFT JOIN set_configs USING (topic) GROUP BY topic
  UNION ALL
  SELECT 'broker', concat('/brokers/ids/', broker_id), from_ts, 'registered'
  FROM {{broker_history}} CROSS JOIN shown
  WHERE from_offset <= shown.offset AND (to_offset IS NULL OR to_offset > shown.offset)
    AND state IN ('active', 'controlled_shutdown')
), found AS (
  SELECT 'partition' AS kind, path, modified_ms,
         concat('leader ', get_json_object(text, '$.leader'), ', epoch ', get_json_object(text, '$.leader_epoch'),
                ', ISR ', array_join(sort_array(from_json(get_json_object(text, '$.isr'), 'array<int>')), ' ')) AS told
  FROM {{znodes}} WHERE path RLIKE '^/brokers/topics/[^/]+/partitions/[0-9]+/state$'
  UNION ALL
  SELECT 'config', path, modified_ms,
         array_join(sort_array(transform(map_entries(config), e -> concat(e.key, '=', e.value))), ', ')
  FROM (SELECT *, from_json(get_json_object(text, '$.config'), 'map<string,string>') AS config FROM {{znodes}}
        WHERE path RLIKE '^/config/topics/[^/]+$')
  UNION ALL
  SELECT 'broker', path, modified_ms, 'registered' FROM {{znodes}} WHERE path RLIKE '^/brokers/ids/[0-9]+$'
), compared AS (
  SELECT coalesce(e.kind, f.kind) AS kind, coalesce(e.path, f.path) AS path, e.told AS expected, f.told AS found, e.ts,
         timestamp_millis(f.modified_ms) AS modified_ts,
         CASE WHEN f.path IS NULL THEN 'missing' WHEN e.path IS NULL THEN 'extra' WHEN e.told <=> f.told THEN 'equal'
              ELSE 'different' END AS outcome,
         CASE WHEN e.told <=> f.told AND unix_millis(e.ts) BETWEEN shown.began_ms AND f.modified_ms
              THEN (f.modified_ms - unix_millis(e.ts)) / 1000 END AS delay_seconds,
         shown.offset AS shown_offset
  FROM expected e FULL OUTER JOIN found f ON e.path = f.path CROSS JOIN shown
)
SELECT *, count(*) OVER () AS znodes, count_if(outcome != 'equal') OVER () AS differing,
       percentile(delay_seconds, 0.5) OVER () AS median_seconds, max(delay_seconds) OVER () AS longest_seconds
FROM compared ORDER BY outcome = 'equal', delay_seconds DESC NULLS LAST, path LIMIT {POINTS_MAX}
"""


def plot(frame: Rows) -> Figure:
    """Draws the differences as a table; if there are none, the delay between each record and its znode."""
    differing = frame[frame["outcome"] != "equal"]
    if len(differing):
        columns = {"path": "znode", "outcome": "it is", "expected": "by the log", "found": "found"}
        return table(differing, columns)
    timed = frame[frame["delay_seconds"].notna()].sort_values("modified_ts")
    if timed.empty:
        return nothing("all znodes are as the log says; none was written since the mirror began")
    made = figure(yaxis_title="seconds behind the record")
    for number, (kind, rows) in enumerate(timed.groupby("kind", sort=False)):
        made.add_scatter(
            x=rows["modified_ts"],
            y=rows["delay_seconds"],
            name=f"{kind}s",
            mode="lines+markers",
            line=line_style(number),
            customdata=rows["path"],
            hovertemplate="%{customdata}: %{y:.3f} s<extra></extra>",
        )
    made.update_xaxes(type="date", title="UTC")
    made.update_yaxes(rangemode="tozero")
    made.update_layout(showlegend=True)
    return made


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    one = frame.iloc[0]
    compared = f"{count_text(one['znodes'], 'znode')} at offset {one['shown_offset']:,.0f}"
    if one["differing"]:
        text = f"{count_text(one['differing'], 'difference')} in {compared}, first {one['path']} ({one['outcome']})"
        verdicts = [ReportVerdict("bad", f"ZooKeeper: {text}.")]
    else:
        verdicts = [ReportVerdict("ok", f"ZooKeeper: {compared}, no difference.")]
    if one["longest_seconds"] == one["longest_seconds"]:
        text = f"median {seconds_text(one['median_seconds'])}, longest {seconds_text(one['longest_seconds'])}"
        late = one["longest_seconds"] > LATE_SECONDS
        verdicts.append(
            ReportVerdict("warn" if late else "ok", f"ZooKeeper: written after the record: {text}.")
        )
    return verdicts


@analysis(
    number="M16",
    title="ZooKeeper parity",
    question="Does ZooKeeper show what the metadata log says, and how soon after?",
    views={
        "znodes": "path string, text string, created_ms bigint, modified_ms bigint",
        "partition_history": "topic string, partition int, from_offset bigint, to_offset bigint, from_ts timestamp, "
        "leader int, leader_epoch int, isr array<int>, state string",
        "broker_history": "broker_id int, from_offset bigint, to_offset bigint, from_ts timestamp, state string",
        "config_history": "offset bigint, ts timestamp, resource_type string, resource_name string, name string, "
        "new_value string",
    },
    needs="znodes of a mirror (`/migration`) in znodes.json",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def zookeeper_parity(
    znodes: DataFrame,
    partition_history: DataFrame,
    broker_history: DataFrame,
    config_history: DataFrame,
) -> DataFrame:
    """Returns the znodes that differ, then the znodes with the longest delay after their record.

    Returns:
        kind string (partition, broker, config), path string, expected string (null: extra), found string (null:
        missing), ts timestamp (of the record), modified_ts timestamp (of the znode), outcome string (equal, missing,
        extra, different), delay_seconds double (null: the znode differs, or was written before the mirror),
        shown_offset long, and over all znodes: znodes long, differing long, median_seconds double, longest_seconds
        double
    """
    return run(
        SQL,
        znodes=znodes,
        partition_history=partition_history,
        broker_history=broker_history,
        config_history=config_history,
    )
