"""The leaders of the quorum, their records, and the gaps before them, read from the log.

The sources are the control record at the start of every epoch and the epochs of the batches. A live leader writes a
record every half second, so a longer gap means that there was no leader. Times are the leaders' own, so they are only
as comparable as the controllers' clocks. The log does not have the reason why a leadership ended. Sans-I/O.
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
    """One leadership, up to its last record; `leader_id` is None if the log does not go back to its start."""

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
    """Yields the epochs of a log's batches, in order.

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
    """Returns the message with which a leader begins its epoch; None for other batches. Raises RemoteProtocolError."""
    if not batch.is_control:
        return None
    for record in decode_records(batch):
        if decode_control_key(record.key or b"") is ControlType.LEADER_CHANGE:
            message = decode_control_value(ControlType.LEADER_CHANGE, record.value or b"")
            assert isinstance(message, LeaderChangeMessage)
            return message
    return None
