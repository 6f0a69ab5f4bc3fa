"""`quorum_epochs`: who led the metadata quorum, from which record to which, and the silence before.

Source: `quorum.metadata.epochs`; `to_ts` is the time of an epoch's last record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from quorum.metadata.epochs import epochs_of
from spark.kafka_log.read import TIMESTAMP, Wanted, batches_of
from spark.kafka_metadata.plan import MetadataTask

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


def _epochs(task: MetadataTask) -> Iterator[Row]:
    batches = (
        batch
        for piece in task.ranges
        for _, batch in batches_of(piece, Wanted((), include_control=True))
    )
    for epoch in epochs_of(batches):
        yield {
            "epoch": epoch.epoch,
            "leader_id": epoch.leader_id,
            "first_offset": epoch.first_offset,
            "last_offset": epoch.last_offset,
            "from_ts": epoch.from_ms * 1000,
            "to_ts": epoch.to_ms * 1000,
            "seconds": epoch.seconds,
            "records": epoch.records,
            "gap_before_ms": epoch.gap_before_ms,
        }
