"""Bugs of the share coordinator, its persister, and the share kind of the group coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from trimaran.broker.groups.share import assigning, heartbeat, initializing, kind
from trimaran.broker.groups.share.operation import ShareOperation
from trimaran.broker.groups.share.state_partitions import StatePartitions
from trimaran.broker.share_state import combining, coordinator, rules
from trimaran.broker.share_state.changes import InitializedStates
from trimaran.broker.share_state.combining import combined
from trimaran.broker.share_state.persister import StatePersister
from trimaran.broker.share_state.records import ShareRecordSerde, UpdateRecord
from trimaran.broker.share_state.shard import ShareCoordinatorShard
from trimaran.broker.share_state.states import StateBatch
from trimaran.node.runtime.steps import Steps
from trimaran.wire.identity import LeaderEpoch, StateEpoch

Patch = AbstractContextManager[Any]


def _old_leaders_write() -> Patch:
    """A write of an earlier leader is accepted."""
    real = ShareCoordinatorShard.write

    def write(self: Any, key: Any, summary: Any, batches: Any, at: Any) -> Any:
        return real(self, key, summary._replace(leader_epoch=LeaderEpoch(1 << 30)), batches, at)

    return mock.patch.object(ShareCoordinatorShard, "write", write)


def _old_state_epochs_write() -> Patch:
    real = ShareCoordinatorShard.write

    def write(self: Any, key: Any, summary: Any, batches: Any, at: Any) -> Any:
        return real(self, key, summary._replace(state_epoch=StateEpoch(1 << 30)), batches, at)

    return mock.patch.object(ShareCoordinatorShard, "write", write)


def _reads_fence_nobody() -> Patch:
    """A read does not store the epoch of the new leader."""
    real = ShareCoordinatorShard.read

    def read(self: Any, key: Any, leader_epoch: Any, at: Any) -> Any:
        return real(self, key, leader_epoch, at)._replace(records=())

    return mock.patch.object(ShareCoordinatorShard, "read", read)


def _initializations_are_not_stored() -> Patch:
    real = ShareCoordinatorShard.initialize

    def initialize(self: Any, key: Any, state_epoch: Any, start_offset: Any, at: Any) -> Any:
        result = real(self, key, state_epoch, start_offset, at)
        return result._replace(records=()) if key in self._entries else result

    return mock.patch.object(ShareCoordinatorShard, "initialize", initialize)


def _deletions_are_not_stored() -> Patch:
    real = ShareCoordinatorShard.delete

    def delete(self: Any, key: Any) -> Any:
        return real(self, key)._replace(records=())

    return mock.patch.object(ShareCoordinatorShard, "delete", delete)


def _start_goes_back() -> Patch:
    """A write stores a start that is one record lower, even if this moves the start back."""
    real = rules.written

    def written(key: Any, state: Any, summary: Any, batches: Any) -> Any:
        update = yield from real(key, state, summary, batches)
        told = summary.start_offset
        return update if told is None else update._replace(start_offset=max(0, told - 1))

    return mock.patch.object(rules, "written", written)


def _updates_replace_states() -> Patch:
    """An update drops the states of records that it does not name."""
    real = rules.updated

    def updated(state: Any, update: Any) -> Any:
        after = yield from real(state, update)
        return after._replace(batches=combined((), update.batches, after.start_offset))

    return mock.patch.object(rules, "updated", updated)


def _snapshots_forget_the_update() -> Patch:
    """A snapshot lacks the write that caused it."""

    real = ShareCoordinatorShard._snapshot_if_due

    def snapshot_if_due(self: Any, entry: Any, update: Any, after: Any, at: Any) -> Any:
        is_due = entry.updates >= self.limits.updates_per_snapshot
        return real(self, entry, update, entry.state if is_due else after, at)

    return mock.patch.object(ShareCoordinatorShard, "_snapshot_if_due", snapshot_if_due)


def _snapshots_forget_states() -> Patch:
    real = rules.snapshot

    def snapshot(after: Any, now_ms: int) -> Any:
        return real(after, now_ms)._replace(batches=())

    return mock.patch.object(rules, "snapshot", snapshot)


def _cold_snapshots_forget_states() -> Patch:
    real = rules.again
    return mock.patch.object(
        rules, "again", lambda state, now_ms: real(state, now_ms)._replace(batches=())
    )


def _cold_snapshots_forget_the_leader() -> Patch:
    real = rules.again
    return mock.patch.object(
        rules,
        "again",
        lambda state, now_ms: real(state, now_ms)._replace(leader_epoch=LeaderEpoch(0)),
    )


def _too_much_is_pruned() -> Patch:
    """The records of the share partition with the oldest snapshot are deleted, too."""

    def prune(self: Any) -> None:
        newest = max((entry.snapshot_offset for entry in self._entries.values()), default=None)
        if newest is not None and newest > self._pruned_before:
            self._effects.follow_ups.append(str(newest))

    return mock.patch.object(ShareCoordinatorShard, "_prune", prune)


def _pruned_beyond_the_last() -> Patch:
    def prune(self: Any) -> None:
        if self._last_offset is not None and self._last_offset > self._pruned_before:
            self._effects.follow_ups.append(str(self._last_offset))

    return mock.patch.object(ShareCoordinatorShard, "_prune", prune)


def _lower_counts_win() -> Patch:
    """The earlier one of two states of a record wins."""
    real = combining._united

    def negated(batches: Iterable[StateBatch]) -> list[StateBatch]:
        return [batch._replace(delivery_count=-batch.delivery_count) for batch in batches]

    def united(batches: Iterable[StateBatch]) -> Steps[list[StateBatch]]:
        return negated((yield from real(negated(batches))))

    return mock.patch.object(combining, "_united", united)


def _reads_lose_states() -> Patch:
    real = StatePersister.read

    async def read(self: Any, key: Any, leader_epoch: Any) -> Any:
        found = await real(self, key, leader_epoch)
        return found._replace(batches=found.batches[:-1])

    return mock.patch.object(StatePersister, "read", read)


def _updates_are_dropped_at_load() -> Patch:
    """A loading share coordinator skips updates."""
    real = ShareRecordSerde.decode

    def decode(self: Any, key: bytes, value: bytes | None) -> Any:
        record = real(self, key, value)
        return None if isinstance(record, UpdateRecord) else record

    loading = type("Loading", (ShareRecordSerde,), {"decode": decode})
    return mock.patch.object(coordinator, "ShareRecordSerde", loading)


# -- groups


def _failed_initializations_count() -> Patch:
    """A share partition counts as initialized although its state is not stored."""
    real = initializing.finish

    def finish(operation: Any, outcome: Any) -> None:
        done = {
            topic_id: outcome.done.get(topic_id, set()) | outcome.failed.get(topic_id, set())
            for topic_id in outcome.done.keys() | outcome.failed.keys()
        }
        real(operation, InitializedStates(done, {}))

    return mock.patch.object(initializing, "finish", finish)


def _repeated_initializations_reset() -> Patch:
    """An initialization that is repeated resets a state that is in use."""
    return mock.patch.object(rules, "is_repeated", return_value=False)


def _finished_partitions_are_initialized_again() -> Patch:
    return mock.patch.object(initializing, "unfinished", lambda begun, _states: begun)


def _failed_initializations_are_forgotten() -> Patch:
    """A group forgets a state whose initialization has failed."""
    real = StatePartitions.finished

    def finished(self: Any, done: Any, failed: Any) -> Any:
        after = real(self, done, failed)
        left = {each: topic for each, topic in after.initializing.items() if each not in failed}
        return type(after)(left, after.initialized, after.deleting)

    return mock.patch.object(StatePartitions, "finished", finished)


def _fenced_initializations_change_nothing() -> Patch:
    real = initializing.finish

    def finish(operation: Any, outcome: Any) -> None:
        real(operation, outcome._replace(is_fenced=False))

    return mock.patch.object(initializing, "finish", finish)


def _nothing_is_awaited() -> Patch:
    """Partitions count as initialized when their initialization begins."""
    real = StatePartitions.beginning

    def beginning(self: Any, topics: Any) -> Any:
        begun = real(self, topics)
        return type(begun)(
            initializing={},
            initialized={**begun.initialized, **begun.initializing},
            deleting=begun.deleting,
        )

    return mock.patch.object(StatePartitions, "beginning", beginning)


def _initializations_do_not_begin() -> Patch:
    return mock.patch.object(kind, "initialize_all", _nothing_stored)


async def _nothing_stored(
    states: Any, group_id: str, state_epoch: Any, offsets: Any
) -> dict[Any, None]:
    return dict.fromkeys(offsets)


def _old_member_epochs_stay() -> Patch:
    """A member keeps its epoch and its assignment forever."""
    real = heartbeat._reconcile

    def reconcile(operation: Any, member: Any, bumped: bool) -> Any:
        return member if member.epoch > 0 else real(operation, member, bumped)

    return mock.patch.object(heartbeat, "_reconcile", reconcile)


def _lost_assignments_are_not_repeated() -> Patch:
    """A member that sends its previous epoch gets no assignment unless it requests one."""

    def wants(_member: Any, request: Any) -> bool:
        return request.member_epoch == 0 or request.subscribed_topic_names is not None

    return mock.patch.object(heartbeat, "_wants_assignment", wants)


def _sessions_of_members_do_not_restart() -> Patch:
    """A member is removed although it sends heartbeats."""
    real = ShareOperation.expect_heartbeat

    def expect(self: Any, member_id: str) -> None:
        if self.session(member_id) not in self.timers:
            real(self, member_id)

    return mock.patch.object(ShareOperation, "expect_heartbeat", expect)


def _target_leaves_partitions_out() -> Patch:
    real = assigning.assign_simply

    def assign(members: Any, assignable: Any) -> Any:
        found = yield from real(members, assignable)
        first = next(iter(found), None)
        if first is not None and len(found) > 1:
            found[first] = {}
        return found

    return mock.patch.object(assigning, "assign_simply", assign)


_MOVES = {
    "balance_every": 0.2,
    "delay_max": 0.02,
    "isolate_every": 0.0,
    "disk_fails_every": 0.0,
    "wipe": 0.0,
}
_MANY = {**_MOVES, "explicit": 0.9, "locks": 200, "freeze": 0.0}
_ALTERS = {"alters": True, "disk_fails_every": 0.0, "wipe": 0.0}
_LATE = {
    "stuck": 0.3,
    "balance_every": 0.1,
    "members": 3,
    "explicit": 0.5,
    "alters": False,
    "freeze": 0.0,
    "disk_fails_every": 0.0,
    "wipe": 0.0,
}
_FAILS = {**_MOVES, "attempts": 1, "delay_max": 0.3}
_SLOW = {"delay_max": 0.3, "wipe": 0.0, "disk_fails_every": 0.0, "explicit": 0.0, "locks": 6}
_FORGETS = {**_ALTERS, "attempts": 1, "delay_max": 0.3, "inputs": 3}
_GONE = {**_ALTERS, "inputs": 3, "shards": 2, "updates": 0, "delay_max": 0.3}
ANY = ("Q1", "Q2", "Q3", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "L1")
STATES: tuple[tuple[str, Any, tuple[str, ...], dict[str, Any]], ...] = (
    ("old leaders write", _old_leaders_write, ANY, _LATE),
    ("old state epochs write", _old_state_epochs_write, ANY, {**_ALTERS, "stuck": 0.3}),
    ("reads fence nobody", _reads_fence_nobody, ANY, _LATE),
    ("initializations are not stored", _initializations_are_not_stored, ANY, _ALTERS),
    ("deletions are not stored", _deletions_are_not_stored, ANY, _ALTERS),
    ("start goes back", _start_goes_back, ANY, _MOVES),
    ("updates replace states", _updates_replace_states, ANY, _MANY),
    ("snapshots forget the update", _snapshots_forget_the_update, ANY, {**_MANY, "updates": 1}),
    ("snapshots forget states", _snapshots_forget_states, ANY, {**_MANY, "updates": 1}),
    ("cold snapshots forget states", _cold_snapshots_forget_states, ANY, {**_MANY, "updates": 10}),
    ("cold snapshots forget the leader", _cold_snapshots_forget_the_leader, ANY, _MOVES),
    ("too much is pruned", _too_much_is_pruned, ANY, {"shards": 1, "inputs": 3}),
    ("all but the last record is pruned", _pruned_beyond_the_last, ANY, {"updates": 3}),
    ("earlier states win", _lower_counts_win, ANY, _MANY),
    ("reads lose states", _reads_lose_states, ANY, _MANY),
    ("updates are not loaded", _updates_are_dropped_at_load, ANY, {**_MANY, "updates": 10}),
    ("failed initializations count", _failed_initializations_count, ANY, _FAILS),
    ("repeated initializations reset", _repeated_initializations_reset, ANY, _SLOW),
    ("finished partitions are initialized", _finished_partitions_are_initialized_again, ANY, _SLOW),
    ("failed initializations are forgotten", _failed_initializations_are_forgotten, ANY, _FORGETS),
    ("fenced initializations change nothing", _fenced_initializations_change_nothing, ANY, _GONE),
    ("initializations count at once", _nothing_is_awaited, ANY, _MOVES),
    ("initializations store nothing", _initializations_do_not_begin, ANY, _MOVES),
    (
        "members keep their first assignment",
        _old_member_epochs_stay,
        ANY,
        {"freeze": 0.2, "members": 3, "inputs": 3},
    ),
    ("lost assignments are not repeated", _lost_assignments_are_not_repeated, ANY, _GONE),
    (
        "heartbeats do not count",
        _sessions_of_members_do_not_restart,
        ANY,
        {"alters": False, "freeze": 0.0, "disk_fails_every": 0.0, "wipe": 0.0, "delay_max": 0.02},
    ),
    (
        "target leaves partitions out",
        _target_leaves_partitions_out,
        ANY,
        {"members": 3, "inputs": 3},
    ),
)
