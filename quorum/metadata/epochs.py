"""The leaders of the quorum, the records of each, and the silence before, read from the log itself.

The sources are the control record that begins every epoch, and the epochs of the batches. A leader that is alive writes
a record every half second, so a longer gap means that there was none. Times are those that the leaders wrote, so they
compare as well as the controllers' clocks do. Why a leadership ended is not in the log. Sans-I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.wire.identity import LeaderEpoch, NodeId, Offset
from trimaran.wire.messages.control import (
    ControlType,
    LeaderChangeMessage,
    decode_control_key,
    decode_control_value,
)


@dataclass(slots=True)
class Epoch:
    """One leadership, up to its last record; `leader_id` is None where the log does not reach back to its beginning."""

    epoch: LeaderEpoch
    leader_id: NodeId | None
    first_offset: Offset
    last_offset: Offset
    from_ms: int
    to_ms: int
    records: int = 0
    gap_before_ms: int | None = None

    @property
    def seconds(self) -> float:
        return (self.to_ms - self.from_ms) / 1000


def epochs_of(batches: Iterable[BatchView]) -> Iterator[Epoch]:
    """The epochs of a log's batches, in order.

    Raises:
        RemoteProtocolError: a malformed control record.
    """
    current: Epoch | None = None
    for batch in batches:
        if current is None or batch.leader_epoch > current.epoch:
            if current is not None:
                yield current
            current = _begin(batch, current)
        change = leader_change(batch)
        if change is not None:
            current.leader_id = NodeId(change.leader_id)
        current.last_offset = batch.last_offset
        current.records += batch.count
        current.to_ms = max(current.to_ms, batch.max_timestamp)
    if current is not None:
        yield current


def _begin(batch: BatchView, before: Epoch | None) -> Epoch:
    start = batch.base_timestamp
    gap = None if before is None else start - before.to_ms
    return Epoch(
        batch.leader_epoch, None, batch.base_offset, batch.last_offset, start, start, 0, gap
    )


def leader_change(batch: BatchView) -> LeaderChangeMessage | None:
    """The message with which a leader begins its epoch; None in other batches. Raises RemoteProtocolError."""
    if not batch.is_control:
        return None
    for record in decode_records(batch):
        if decode_control_key(record.key or b"") is ControlType.LEADER_CHANGE:
            message = decode_control_value(ControlType.LEADER_CHANGE, record.value or b"")
            assert isinstance(message, LeaderChangeMessage)
            return message
    return None
