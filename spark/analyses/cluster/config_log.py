"""M10: changes of configs, quotas, ACLs, credentials and tokens, and configs that differ between brokers."""

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
from trimaran.spark.analyses.plots import nothing, table

ROWS = 500

SQL = f"""
WITH changes AS (
  SELECT offset, ts, resource_type AS kind,
         CASE WHEN resource_name = '' THEN 'all brokers' ELSE resource_name END AS subject,
         name, old_value, new_value, event
  FROM {{config_history}}
  UNION ALL
  SELECT offset, ts, kind, coalesce(principal, id),
         concat_ws(' ', permission, operation, resource_type, resource_name, detail),
         NULL, NULL, event
  FROM {{acl_history}}
), latest AS (
  SELECT resource_name, name, max_by(new_value, offset) AS value FROM {{config_history}}
  WHERE resource_type = 'broker' AND resource_name != '' GROUP BY resource_name, name
), drift AS (
  SELECT name, concat_ws('; ', sort_array(collect_list(concat(resource_name, ': ', coalesce(value, '-'))))) AS told
  FROM latest GROUP BY name HAVING count(DISTINCT coalesce(value, '')) > 1
)
(SELECT 'change' AS row_kind, ts, kind, subject, name, old_value, new_value, event, count(*) OVER () AS changes
 FROM changes ORDER BY offset DESC LIMIT {ROWS})
UNION ALL
SELECT 'drift', NULL, 'broker', NULL, name, NULL, left(told, 400), NULL, NULL FROM drift
UNION ALL
SELECT 'count', NULL, kind, NULL, event, NULL, NULL, event, count(*) FROM changes GROUP BY kind, event
"""


def plot(frame: Rows) -> Figure:
    """Draws the latest changes as a table."""
    shown = frame[frame["row_kind"] == "change"].sort_values("ts", ascending=False)
    if shown.empty:
        return nothing("nothing was configured")
    heads = {"ts": "when (UTC)", "kind": "kind", "subject": "of", "name": "what", "event": "event"}
    return table(shown, {**heads, "old_value": "before", "new_value": "after"})


def evaluate(frame: Rows) -> list[ReportVerdict]:
    counts = frame[frame["row_kind"] == "count"]
    if counts.empty:
        return [ReportVerdict("info", "Configuration: nothing was changed.")]
    made = counts[counts["event"] != "snapshot"].groupby("kind")["changes"].sum()
    told = ", ".join(f"{n:,.0f} × {kind}" for kind, n in made.sort_values(ascending=False).items())
    verdicts = [
        ReportVerdict(
            "info", f"Configuration: changes: {told or 'none but what a snapshot holds'}."
        )
    ]
    drift = frame[frame["row_kind"] == "drift"]
    if len(drift):
        names = ", ".join(sorted(drift["name"])[:5])
        text = f"brokers differ in {count_text(len(drift), 'config')}: {names}"
        verdicts.append(ReportVerdict("warn", f"Drift: {text}."))
    return verdicts


@analysis(
    number="M10",
    title="Configuration and permissions",
    question="Which configs, quotas, ACLs, credentials and tokens changed, and how do brokers differ?",
    views={
        "config_history": "offset bigint, ts timestamp, resource_type string, resource_name string, name string, "
        "old_value string, new_value string, event string",
        "acl_history": "offset bigint, ts timestamp, kind string, event string, id string, principal string, "
        "resource_type string, resource_name string, operation string, permission string, detail string",
    },
    needs="configs or ACLs in the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def config_log(config_history: DataFrame, acl_history: DataFrame) -> DataFrame:
    """Returns the latest changes, configs that differ between brokers, and the number of changes.

    Returns:
        row_kind string (change, drift, count), ts timestamp, kind string (topic, broker, client-quota, acl, scram,
        token …), subject string (resource, or principal), name string, old_value string, new_value string, event
        string, changes long
    """
    return run(SQL, config_history=config_history, acl_history=acl_history)
