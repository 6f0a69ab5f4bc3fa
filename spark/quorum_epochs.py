"""`quorum_epochs`: who led the metadata quorum, from which record to which, and the silence before.

From the LeaderChangeMessage that begins every epoch, and from the epochs stamped on the batches. `to_ts` is the time of an
epoch's last record: a leader that is alive writes one every half second (NoOpRecord), so a longer gap means no leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from spark.metadata_plan import MetadataTask, leader_change
from spark.read import TIMESTAMP, Wanted, batches_of

SCHEMA = pa.schema(
    [
        ("epoch", pa.int32()),
        ("leader_id", pa.int32()),
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("from_ts", TIMESTAMP),
        ("to_ts", TIMESTAMP),
        ("seconds", pa.float64()),
        ("records", pa.int64()),
        ("gap_before_ms", pa.int64()),
    ]
)

Row = dict[str, Any]


def read_quorum_epochs(task: MetadataTask, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Rows of the table, from one whole metadata log. Raises DataUnreadable."""
    rows = [{name: row[name] for name in columns} for row in _epochs(task)]
    yield pa.RecordBatch.from_pylist(rows, pa.schema([SCHEMA.field(name) for name in columns]))


def _epochs(task: MetadataTask) -> list[Row]:
    rows: list[Row] = []
    for piece in task.ranges:
        for _, batch in batches_of(piece, Wanted((), include_control=True)):
            change = leader_change(batch)
            if not rows or batch.leader_epoch > rows[-1]["epoch"]:
                # The first batch's base timestamp is the election's; without a change record we only know when it was seen.
                rows.append(
                    _begin(rows, batch.leader_epoch, batch.base_offset, batch.base_timestamp)
                )
            row = rows[-1]
            if change is not None:
                row["leader_id"] = change.leader_id
            row["last_offset"] = batch.last_offset
            row["records"] += batch.count
            row["to_ts"] = max(row["to_ts"], batch.max_timestamp * 1000)
            row["seconds"] = (row["to_ts"] - row["from_ts"]) / 1_000_000
    return rows


def _begin(rows: list[Row], epoch: int, offset: int, timestamp_ms: int) -> Row:
    gap = timestamp_ms - rows[-1]["to_ts"] // 1000 if rows else None
    return {
        "epoch": epoch,
        "leader_id": None,
        "first_offset": offset,
        "last_offset": offset,
        "from_ts": timestamp_ms * 1000,
        "to_ts": timestamp_ms * 1000,
        "seconds": 0.0,
        "records": 0,
        "gap_before_ms": gap,
    }
