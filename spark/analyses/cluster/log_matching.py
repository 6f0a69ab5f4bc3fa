"""M15: do the logs of all controllers hold the same bytes at equal offsets and epochs (log matching of Raft)?"""

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
from trimaran.spark.analyses.plots import nothing, pair_matrix

SQL = """
WITH heads AS (
  SELECT node_id, base_offset, epoch, crc FROM {metadata_batches_all}
), pairs AS (
  SELECT a.node_id AS node, b.node_id AS other, a.base_offset, a.epoch, a.crc = b.crc AS same
  FROM heads a JOIN heads b ON a.base_offset = b.base_offset AND a.epoch = b.epoch AND a.node_id < b.node_id
)
SELECT node, other, count(*) AS compared, sum(CASE WHEN same THEN 0 ELSE 1 END) AS different,
       min(CASE WHEN NOT same THEN base_offset END) AS first_different_offset
FROM pairs GROUP BY node, other ORDER BY different DESC, node, other LIMIT 500
"""


def plot(frame: Rows) -> Figure:
    """Draws a matrix, green for two logs that agree."""
    if frame.empty:
        return nothing("only one metadata log is there: nothing to compare")
    return pair_matrix("node", zip(frame["node"], frame["other"], frame["different"], strict=True))


def evaluate(frame: Rows) -> list[ReportVerdict]:
    if frame.empty:
        return []
    bad = frame[frame["different"] > 0]
    if bad.empty:
        batches = count_text(frame["compared"].sum(), "batch")
        text = f"no difference in {batches} compared, of {count_text(len(frame), 'pair')} of nodes"
        return [ReportVerdict("ok", f"Log matching: {text}.")]
    one = bad.iloc[0]
    text = (
        f"nodes {one['node']:.0f} and {one['other']:.0f} differ from offset {one['first_different_offset']:.0f} on, at "
        f"the same epoch: one of the logs is damaged, or the quorum broke its rules"
    )
    return [ReportVerdict("bad", f"Log matching: {text}.")]


@analysis(
    number="M15",
    title="Log matching across controllers",
    question="Do all copies of the metadata log hold the same bytes at equal offsets?",
    views={"metadata_batches_all": "node_id int, base_offset bigint, epoch int, crc bigint"},
    needs="two copies of the metadata log",
    sql=SQL,
    plot=plot,
    evaluate=evaluate,
)
def log_matching(metadata_batches_all: DataFrame) -> DataFrame:
    """Returns pairs of nodes, differing pairs first.

    Args:
        metadata_batches_all: `batches` of `kafka_metadata` with `nodes=all` and `includeUncommitted`.

    Returns:
        node int, other int, compared long (batches with the same offset and epoch), different long,
        first_different_offset long
    """
    return run(SQL, metadata_batches_all=metadata_batches_all)
