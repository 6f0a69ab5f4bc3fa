"""The changes of one share partition's state, as functions without side effects.

Source: Kafka's `ShareCoordinatorShard.generateShareStateRecord`, `merge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trimaran.broker.share_state.combining import combined, combining
from trimaran.broker.share_state.records import StoredState, UpdateRecord
from trimaran.broker.share_state.states import ShareSummary, StateBatch
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    LeaderEpoch,
    Offset,
    SharePartitionKey,
    SnapshotEpoch,
    StateEpoch,
)

NO_COUNT = -1

NO_SUMMARY = ShareSummary(StateEpoch(0), LeaderEpoch(0), None, None)
"""The position of a share partition without a state."""


@dataclass(frozen=True, slots=True)
class StateEntry:
    """A state with the values that follow from its records: the highest epochs (those of a new state may be lower), the
    updates since the last snapshot that was due, and the offset of the last snapshot.
    """

    state: StoredState
    leader_epoch: LeaderEpoch
    state_epoch: StateEpoch
    updates: int
    snapshot_offset: Offset

    @property
    def is_cold(self) -> bool:
        """Whether the last snapshot was not made by a write."""
        return self.state.created_ms != self.state.written_ms


# -- decisions


def is_repeated(entry: StateEntry, state_epoch: StateEpoch, start_offset: Offset | None) -> bool:
    """Whether the initialization has been done before and the state has been in use since, because the response was
    late or lost. Only heartbeats initialize at 0 or None. An operator may alter offsets twice in one epoch, also to 0,
    but then no member of the group has read the partition in between.
    """
    state = entry.state
    if state.state_epoch != state_epoch:
        return False
    if start_offset is None and state.start_offset != NO_OFFSET:
        return True
    return not start_offset and bool(state.leader_epoch or state.batches)


def initial(
    before: StateEntry | None, state_epoch: StateEpoch, start_offset: Offset | None, now_ms: int
) -> StoredState:
    """Returns a state without batches. No leader has read it."""
    return StoredState(
        snapshot_epoch=SnapshotEpoch(0) if before is None else before.state.snapshot_epoch + 1,
        state_epoch=state_epoch,
        leader_epoch=LeaderEpoch(0),
        start_offset=NO_OFFSET if start_offset is None else start_offset,
        delivery_complete_count=NO_COUNT if start_offset is None else 0,
        batches=(),
        created_ms=now_ms,
        written_ms=now_ms,
    )


def written(
    key: SharePartitionKey,
    state: StoredState,
    summary: ShareSummary,
    batches: Sequence[StateBatch],
) -> Steps[UpdateRecord]:
    """Returns the update of a write. A start offset below the stored one has no effect; if both are equal, the higher
    count of complete deliveries stays: writes may arrive late.
    """
    told = NO_OFFSET if summary.start_offset is None else summary.start_offset
    count = summary.delivery_complete_count
    count = NO_COUNT if count is None else count
    if told == state.start_offset:
        count = max(count, state.delivery_complete_count)
    elif told < state.start_offset:
        count = state.delivery_complete_count
    start_offset = max(told, state.start_offset)
    kept = yield from combining((), batches, start_offset)
    return UpdateRecord(key, state.snapshot_epoch, state.leader_epoch, start_offset, count, kept)


def led_by(key: SharePartitionKey, state: StoredState, leader_epoch: LeaderEpoch) -> UpdateRecord:
    """Returns the update of a read by a new leader."""
    return UpdateRecord(
        key,
        state.snapshot_epoch,
        leader_epoch,
        state.start_offset,
        state.delivery_complete_count,
        (),
    )


def snapshot(after: StoredState, now_ms: int) -> StoredState:
    """Returns a snapshot of the state after an update."""
    return after._replace(
        snapshot_epoch=after.snapshot_epoch + 1, created_ms=now_ms, written_ms=now_ms
    )


def again(state: StoredState, now_ms: int) -> StoredState:
    """Returns a snapshot of an unchanged state."""
    return state._replace(snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms)


# -- replays


def updated(state: StoredState, update: UpdateRecord) -> Steps[StoredState]:
    """Returns the state after an update."""
    start_offset = state.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    leader_epoch = (
        state.leader_epoch if update.leader_epoch == NO_LEADER_EPOCH else update.leader_epoch
    )
    batches = yield from combining(state.batches, update.batches, start_offset)
    return state._replace(
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.delivery_complete_count,
        batches=batches,
    )


def after_update(
    before: StateEntry | None,
    update: UpdateRecord,
    offset: Offset,
    after: StoredState | None = None,
) -> StateEntry:
    """Returns the entry after an update; `after` is its state, if that is known. An update without an earlier snapshot
    creates a state.
    """
    if before is None:
        none = StoredState(
            update.snapshot_epoch,
            StateEpoch(0),
            update.leader_epoch,
            NO_OFFSET,
            NO_COUNT,
            (),
            created_ms=0,
            written_ms=0,
        )
        before = StateEntry(none, none.leader_epoch, none.state_epoch, 0, offset)
    return StateEntry(
        at_once(updated(before.state, update)) if after is None else after,
        max(before.leader_epoch, update.leader_epoch),
        before.state_epoch,
        before.updates + 1,
        before.snapshot_offset,
    )


def after_snapshot(
    before: StateEntry | None,
    state: StoredState,
    offset: Offset,
    updates_max: int,
    *,
    is_ordered: bool = False,
) -> StateEntry:
    """Returns the entry after a snapshot. Another program may have written it, so its batches are put in order unless
    `is_ordered`. As in Kafka, the count of updates begins again only if `updates_max` was reached.
    """
    if not is_ordered:
        state = state._replace(batches=combined((), state.batches, NO_OFFSET))
    leader_epoch, state_epoch = state.leader_epoch, state.state_epoch
    updates = 0
    if before is not None:
        leader_epoch = max(before.leader_epoch, leader_epoch)
        state_epoch = max(before.state_epoch, state_epoch)
        updates = before.updates if before.updates < updates_max else 0
    return StateEntry(state, leader_epoch, state_epoch, updates, offset)


def summary_of(state: StoredState) -> ShareSummary:
    """Returns the position of a state."""
    return ShareSummary(
        state.state_epoch,
        state.leader_epoch,
        None if state.start_offset == NO_OFFSET else state.start_offset,
        None if state.delivery_complete_count == NO_COUNT else state.delivery_complete_count,
    )
