"""`quorum_epochs`: the leaders of the metadata quorum, their first and last records, and the gap before each.

Source: `trimaran.quorum.metadata.epochs`; `to_ts` is the time of an epoch's last record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from trimaran.log.batches.batch import BatchView
from trimaran.quorum.metadata.epochs import Epoch, epochs_of
from trimaran.spark.data_source.columns import INT, LONG, TIMESTAMP, Column, field, rows_to_arrow
from trimaran.spark.kafka_metadata.log_walk.walk import batches_in
from trimaran.spark.kafka_metadata.options import AS_OF_OPTIONS, BOUND_OPTIONS, MetadataOptions
from trimaran.spark.kafka_metadata.plan import MetadataTask
from trimaran.spark.kafka_metadata.table import Table
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.wire.errors import RemoteProtocolError


class Silence(NamedTuple):
    """The time between two batches; both fields are None if there is none."""

    length_ms: int | None
    began_ms: int | None


NO_SILENCE = Silence(None, None)


class EpochRow(NamedTuple):
    """A row: an epoch of the quorum, with the longest time between two of its batches."""

    epoch: Epoch
    silence: Silence


# fmt: off
COLUMNS = (
    Column("epoch", INT, field("epoch.epoch"), "the quorum's epoch", "batch header"),
    Column("leader_id", INT, field("epoch.leader_id"), "the leader; null: the log begins later",
           "LeaderChangeMessage.leaderId"),
    Column("first_offset", LONG, field("epoch.first_offset"), "its first record"),
    Column("last_offset", LONG, field("epoch.last_offset"), "its last record"),
    Column("from_ts", TIMESTAMP, field("epoch.from_ms"), "time of its first record", unit="UTC"),
    Column("to_ts", TIMESTAMP, field("epoch.to_ms"), "time of its last record", unit="UTC"),
    Column("seconds", pa.float64(), lambda row: row.epoch.seconds if row.epoch.from_ms >= 0 else None, "between both",
           unit="s"),
    Column("records", LONG, field("epoch.records"), "how many it wrote"),
    Column("gap_before_ms", LONG, lambda row: _gap_before(row.epoch),
           "from the last record of the epoch before; null: no time", unit="ms"),
    Column("silence_max_ms", LONG, field("silence.length_ms"), "the longest time without a record within it",
           unit="ms"),
    Column("silence_ts", TIMESTAMP, field("silence.began_ms"), "when that silence began", unit="UTC"),
)
# fmt: on


def read(
    task: MetadataTask, wanted: tuple[str, ...], options: MetadataOptions
) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the table from one whole metadata log. Raises DataUnreadable."""
    silences = _Silences()
    try:
        rows = [
            EpochRow(epoch, silences.longest.get(epoch.epoch, NO_SILENCE))
            for epoch in epochs_of(silences.watched(_batches(task, options.as_of_timestamp)))
            if epoch.last_offset >= task.shown_from
        ]
    except RemoteProtocolError as error:
        raise DataUnreadable(f"the metadata log of node {task.node_id}: {error}") from None
    yield rows_to_arrow(rows, COLUMNS, wanted)


def _gap_before(epoch: Epoch) -> int | None:
    """Returns the gap before the epoch; None also if its first record, or the last record of the previous epoch, has no
    time (-1).
    """
    gap = epoch.gap_before_ms
    if gap is None or epoch.from_ms < 0 or epoch.from_ms - gap < 0:
        return None
    return gap


def _batches(task: MetadataTask, until_ms: int | None) -> Iterator[BatchView]:
    for piece in task.ranges:
        for _, batch in batches_in(piece):
            if until_ms is not None and batch.base_timestamp > until_ms:
                return
            yield batch


class _Silences:
    """Finds the longest time between two batches of each epoch."""

    def __init__(self) -> None:
        self.longest: dict[int, Silence] = {}
        self._last: tuple[int, int] | None = None

    def watched(self, batches: Iterator[BatchView]) -> Iterator[BatchView]:
        for batch in batches:
            epoch, last = batch.leader_epoch, self._last
            if last is not None and last[0] == epoch and min(last[1], batch.base_timestamp) >= 0:
                silence = batch.base_timestamp - last[1]
                if silence > (self.longest.get(epoch, NO_SILENCE).length_ms or 0):
                    self.longest[epoch] = Silence(silence, last[1])
            self._last = epoch, batch.max_timestamp
            yield batch


TABLE = Table(
    "quorum_epochs",
    "The leader of each epoch of the metadata quorum, its time as a leader, and the gap without records.",
    COLUMNS,
    read,
    "whole",
    frozenset((*AS_OF_OPTIONS, *BOUND_OPTIONS)),
)
