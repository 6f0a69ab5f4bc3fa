"""The core's interface to the log, and two decisions that are pure arithmetic over it.

Source: Kafka's `RaftLog.validateOffsetAndEpoch` and `truncateToEndOffset` (KIP-595, KIP-630).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.wire.identity import LeaderEpoch, Offset


class LogView(Protocol):
    """The replicated log as the core sees it. Offset ranges are half-open; `end_offset` is the offset of the next
    record.
    """

    @property
    def history(self) -> QuorumHistory:
        """Returns the voters in the log, updated with every change of it."""

    @property
    def refetch_end(self) -> Offset | None:
        """Returns the end of the log before damaged data was removed; None once all of it has been fetched again, or if
        there was no damage.
        """

    @property
    def start_offset(self) -> Offset: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def last_epoch(self) -> LeaderEpoch:
        """Returns the epoch of the last record; of the snapshot at the start if the log is empty; else 0."""

    @property
    def earliest_snapshot(self) -> OffsetAndEpoch | None: ...

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None: ...

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        """Returns the largest epoch of the log that is not above `epoch`, and its end offset."""

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Returns the bytes of a complete snapshot; None if there is no such snapshot."""


class FetchValidation(NamedTuple):
    """The offset at which the logs diverge, or the snapshot to start from; both are None for a fetch that
    may continue.
    """

    diverging: OffsetAndEpoch | None = None
    snapshot_id: OffsetAndEpoch | None = None


ON_OUR_LOG = FetchValidation()


def end_of(log: LogView) -> OffsetAndEpoch:
    return OffsetAndEpoch(log.end_offset, log.last_epoch)


def validate_fetch(
    log: LogView, offset: Offset, last_fetched_epoch: LeaderEpoch
) -> FetchValidation:
    """Locates a fetch from `offset` in our log: on it, on a diverged log, or before its start."""
    latest = log.latest_snapshot
    if offset == 0 and latest is not None and latest.offset > 0:
        # For an empty log the snapshot is always faster; (0, 0) is the bootstrap file, which is not
        # replicated.
        return FetchValidation(snapshot_id=latest)
    if offset == 0 and log.start_offset == 0:
        return ON_OUR_LOG
    earliest = log.earliest_snapshot
    if (
        earliest is not None
        and latest is not None
        and _is_before(log, earliest, offset, last_fetched_epoch)
    ):
        return FetchValidation(snapshot_id=latest)
    known = log.end_offset_for_epoch(last_fetched_epoch)
    if known.epoch != last_fetched_epoch or known.offset < offset:
        return FetchValidation(diverging=known)
    return ON_OUR_LOG


def _is_before(log: LogView, earliest: OffsetAndEpoch, offset: Offset, epoch: LeaderEpoch) -> bool:
    return (
        offset < log.start_offset
        or (offset == log.start_offset and epoch != earliest.epoch)
        or epoch < earliest.epoch
    )


def truncation_offset(log: LogView, diverging: OffsetAndEpoch) -> Offset:
    """Returns the end of our log's part that can still agree with a leader whose `diverging.epoch` ends at
    `diverging.offset`.
    """
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    ours = log.end_offset_for_epoch(diverging.epoch)
    if ours.epoch == diverging.epoch:
        return min(ours.offset, diverging.offset)
    return ours.offset
