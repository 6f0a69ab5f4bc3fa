"""One partition of `__share_group_state` as a state machine: the states of share partitions. No I/O.

It is a `CoordinatorShard`. A write adds an update to the last snapshot, or makes a new snapshot after a number of
updates. Everything before the oldest of the last snapshots is redundant: the shard names its offset as a follow-up, and
the coordinator deletes the records. Source: Kafka's `ShareCoordinatorShard`, `ShareCoordinatorOffsetsManager`.
Intentional differences: the states of topics that were deleted while no broker served the shard are removed, too; a
repeated initialization does not reset a state that is in use: accepted records would be delivered again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from weakref import WeakSet

from trimaran.broker import events
from trimaran.broker.coordination.memory import Account
from trimaran.broker.coordination.shard import Effects, Write
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.share_state import rules
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.memory import (
    BATCHES_MAX,
    STATES_BYTES_MAX,
    encoded_bytes,
    held_bytes,
)
from trimaran.broker.share_state.records import (
    ShareRecord,
    ShareWrite,
    SnapshotRecord,
    StoredState,
    UpdateRecord,
)
from trimaran.broker.share_state.rules import StateEntry
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch, Offset, SharePartitionKey, StateEpoch

log = logging.getLogger(__name__)

E = ErrorCode

PartitionCount = Callable[[bytes], int]
"""Returns the number of partitions of the topic with this id in the newest metadata; 0 if there is no such topic."""

# The bounds of one write of the shard itself: records, and their bytes
RECORDS_PER_STEP = 250
BYTES_PER_STEP = 500_000

# The delay before tombstones are written again after a failure.
RETRY_MS = 1_000


class _Sweep(Enum):
    PRUNE = "prune"  # looks for redundant records
    COLD = "cold"  # makes snapshots of share partitions that are not written to
    REMOVE = "remove"  # removes the states of deleted topics


class ShareCoordinatorShard:
    """The states of one partition of the topic."""

    def __init__(
        self,
        limits: ShareLimits,
        partition_count: PartitionCount,
        accounts: WeakSet[Account] | None = None,
    ) -> None:
        self.limits = limits
        self.account = Account(accounts)
        self._partition_count = partition_count
        # The entries are in the order of their last snapshots: the first one needs the oldest record of the log.
        self._entries: dict[SharePartitionKey, StateEntry] = {}
        self._by_topic: dict[bytes, dict[SharePartitionKey, None]] = {}
        self._last_offset: Offset | None = None
        self._pruned_before = Offset(0)
        # The number of entries whose last snapshot was not made by a write.
        self._cold = 0
        self._sweeps_cold = False
        # The keys of deleted topics whose tombstones are still to be written.
        self._gone: deque[SharePartitionKey] = deque()
        # The record that was decided last, with the state after it, so that its replay need not combine the batches
        # again.
        self._foreseen: tuple[ShareRecord, StoredState] | None = None
        self._timers = Timers[_Sweep]()
        self._effects: Effects[ShareRecord] = Effects()

    # -- inputs

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: StateEpoch,
        start_offset: Offset | None,
        at: Instant,
    ) -> Result[ShareRecord, None]:
        """Stores a state without batches, unless this is done already (`rules.is_repeated`).

        Raises:
            KafkaError: INVALID_REQUEST; FENCED_STATE_EPOCH; UNKNOWN_TOPIC_OR_PARTITION; POLICY_VIOLATION if there is no
                room.
        """
        _check_not_negative(key.partition, state_epoch=state_epoch)
        entry = self._entries.get(key)
        if entry is not None and entry.state_epoch > state_epoch:
            raise KafkaError(E.FENCED_STATE_EPOCH)
        self._check_exists(key)
        if entry is not None and rules.is_repeated(entry, state_epoch, start_offset):
            return Result((), None)
        state = rules.initial(entry, state_epoch, start_offset, at.now_ms)
        self._check_room(held_bytes(key, state) - self._held(key))
        return Result((SnapshotRecord(key, state),), None)

    def read(
        self, key: SharePartitionKey, leader_epoch: LeaderEpoch, at: Instant
    ) -> Result[ShareRecord, ShareState]:
        """Returns the state; writes the leader epoch if it is a new one.

        Raises:
            KafkaError: INVALID_REQUEST, also if there is no state; FENCED_LEADER_EPOCH; UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_not_negative(key.partition, leader_epoch=leader_epoch)
        entry = self._entries.get(key)
        if entry is None:
            raise KafkaError(
                E.INVALID_REQUEST, "the share partition was never initialized: no read"
            )
        if entry.leader_epoch > leader_epoch:
            raise KafkaError(E.FENCED_LEADER_EPOCH)
        self._check_exists(key)
        response = ShareState(rules.summary_of(entry.state), entry.state.batches)
        if entry.leader_epoch == leader_epoch:
            return Result((), response)
        update = rules.led_by(key, entry.state, leader_epoch)
        after = at_once(rules.updated(entry.state, update))
        return Result((self._snapshot_if_due(entry, update, after, at),), response)

    def summary(self, key: SharePartitionKey) -> Result[ShareRecord, ShareSummary]:
        """Returns the position, with epochs of 0 if there is no state.

        Raises:
            KafkaError: INVALID_REQUEST; UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_not_negative(key.partition)
        self._check_exists(key)
        entry = self._entries.get(key)
        return Result((), rules.NO_SUMMARY if entry is None else rules.summary_of(entry.state))

    def write(
        self,
        key: SharePartitionKey,
        summary: ShareSummary,
        batches: Sequence[StateBatch],
        at: Instant,
    ) -> Steps[Result[ShareRecord, None]]:
        """Stores a position, and the state of these batches. If a sweep changes the state between two steps, the steps
        begin again; requests cannot change it in between (`Turns`). The last step decides, and its result must be
        written before the next input.

        Raises:
            KafkaError: INVALID_REQUEST, also if there is no state; FENCED_LEADER_EPOCH; FENCED_STATE_EPOCH;
                UNKNOWN_TOPIC_OR_PARTITION; POLICY_VIOLATION if there is no room.
        """
        _check_not_negative(key.partition, summary.leader_epoch, summary.state_epoch)
        while True:
            entry = self._writable(key, summary)
            if len(batches) > BATCHES_MAX:
                raise _too_many_batches()
            if any(batch.first_offset > batch.last_offset for batch in batches):
                raise KafkaError(E.INVALID_REQUEST, "a batch ends before its first record")
            update = yield from rules.written(key, entry.state, summary, batches)
            after = yield from rules.updated(entry.state, update)
            if self._entries.get(key) is entry:
                break
        if len(after.batches) > BATCHES_MAX:
            raise _too_many_batches()
        self._check_room(held_bytes(key, after) - held_bytes(key, entry.state))
        return Result((self._snapshot_if_due(entry, update, after, at),), None)

    def delete(self, key: SharePartitionKey) -> Result[ShareRecord, None]:
        """Deletes the state, if there is one.

        Raises:
            KafkaError: INVALID_REQUEST; UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_not_negative(key.partition)
        self._check_exists(key)
        records = (SnapshotRecord(key, None),) if key in self._entries else ()
        return Result(records, None)

    def topics_deleted(self, topic_ids: Iterable[bytes], at: Instant) -> None:
        """Begins to remove the states of deleted topics."""
        for topic_id in topic_ids:
            self._gone += self._by_topic.get(topic_id, ())
        if self._gone:
            self._timers.set(_Sweep.REMOVE, at.now)

    @property
    def pruned_before(self) -> Offset:
        """The offset before which records were deleted; 0 if none were deleted since the load."""
        return self._pruned_before

    def pruned(self, offset: Offset) -> None:
        """Notes that the records before `offset` have been deleted."""
        self._pruned_before = max(self._pruned_before, offset)

    # -- checks

    def _check_exists(self, key: SharePartitionKey) -> None:
        if key.partition >= self._partition_count(key.topic_id):
            raise KafkaError(E.UNKNOWN_TOPIC_OR_PARTITION)

    def _writable(self, key: SharePartitionKey, summary: ShareSummary) -> StateEntry:
        entry = self._entries.get(key)
        if entry is None:
            raise KafkaError(
                E.INVALID_REQUEST, "the share partition was never initialized: no write"
            )
        if entry.leader_epoch > summary.leader_epoch:
            raise KafkaError(E.FENCED_LEADER_EPOCH)
        if entry.state_epoch > summary.state_epoch:
            raise KafkaError(E.FENCED_STATE_EPOCH)
        self._check_exists(key)
        return entry

    def _check_room(self, more: int) -> None:
        if not self.account.fits(more, STATES_BYTES_MAX):
            raise KafkaError(
                E.POLICY_VIOLATION,
                "the states of share partitions of this broker take as much memory as they may",
            )

    def _held(self, key: SharePartitionKey) -> int:
        entry = self._entries.get(key)
        return held_bytes(key, None if entry is None else entry.state)

    def _snapshot_if_due(
        self, entry: StateEntry, update: UpdateRecord, after: StoredState, at: Instant
    ) -> ShareRecord:
        """Returns the update, or after many of them a snapshot of the state after it."""
        record: ShareRecord = update
        if entry.updates >= self.limits.updates_per_snapshot:
            after = rules.snapshot(after, at.now_ms)
            record = SnapshotRecord(update.key, after)
        self._foreseen = record, after
        return record

    # -- calls of the runtime

    def replay(
        self, offset: Offset, record: ShareRecord, _producer: Producer | None = None
    ) -> None:
        """Applies a record of the log: states only change in this way."""
        key, before = record.key, self._entries.get(record.key)
        self._last_offset = offset
        foreseen, self._foreseen = self._foreseen, None
        known = foreseen[1] if foreseen is not None and foreseen[0] is record else None
        self.account.bytes -= self._held(key)
        if before is not None:
            self._cold -= before.is_cold
        if isinstance(record, UpdateRecord):
            entry = self._entries[key] = rules.after_update(before, record, offset, known)
        else:
            self._entries.pop(key, None)  # the entry moves to the end
            if record.state is None:
                self._forget(key)
                return
            is_ordered = known is not None or (
                before is not None and record.state.batches is before.state.batches
            )
            entry = self._entries[key] = rules.after_snapshot(
                before,
                record.state,
                offset,
                self.limits.updates_per_snapshot,
                is_ordered=is_ordered,
            )
        self._by_topic.setdefault(key.topic_id, {})[key] = None
        self._cold += entry.is_cold
        self.account.bytes += held_bytes(key, entry.state)

    def _forget(self, key: SharePartitionKey) -> None:
        known = self._by_topic.get(key.topic_id)
        if known is not None:
            known.pop(key, None)
            if not known:
                del self._by_topic[key.topic_id]

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        """Does nothing: records of this topic are not part of transactions."""

    def finish_load(self) -> None:
        """Finds states of topics that were deleted while no broker served the shard."""
        for topic_id, keys in self._by_topic.items():
            if not self._partition_count(topic_id):
                self._gone += keys

    def loaded(self, at: Instant) -> None:
        """Starts the sweeps. States of deleted topics are removed immediately."""
        self._timers.set(_Sweep.PRUNE, at.after_ms(self.limits.prune_interval_ms))
        self._timers.set(_Sweep.COLD, at.after_ms(self.limits.cold_snapshot_interval_ms))
        if self._gone:
            self._timers.set(_Sweep.REMOVE, at.now)

    def deadline(self) -> float | None:
        """Returns the time of the next sweep, in monotonic seconds."""
        return self._timers.earliest()

    def handle_timeout(self, at: Instant) -> None:
        """Performs the sweeps that are due. A sweep with work left continues immediately after other requests."""
        due = []
        while (timer := self._timers.pop_due(at.now)) is not None:
            due.append(timer)
        for timer in due:
            if timer is _Sweep.PRUNE:
                self._prune()
                self._timers.set(timer, at.after_ms(self.limits.prune_interval_ms))
            elif timer is _Sweep.COLD:
                next_sweep = at.after_ms(self.limits.cold_snapshot_interval_ms)
                self._timers.set(timer, at.now if self._snapshot_cold(at.now_ms) else next_sweep)
            else:
                self._remove_gone()
                if self._gone:
                    self._timers.set(timer, at.now)

    def _prune(self) -> None:
        """Requests the deletion of the redundant records before the first needed one, unless they have been deleted
        already.
        """
        oldest = next(iter(self._entries.values()), None)
        offset = self._last_offset if oldest is None else oldest.snapshot_offset
        if offset is not None and offset > self._pruned_before:
            self._effects.follow_ups.append(str(offset))

    def _snapshot_cold(self, now_ms: int) -> bool:
        """Continues or begins a sweep: makes snapshots of states whose last one is old, so that the records before it
        become redundant. Does nothing if all last snapshots were made in this way: nothing was written since. Returns
        True if states are left.
        """
        if not self._sweeps_cold and self._cold == len(self._entries):
            return False
        records = list(_in_one_write(self._old_states(now_ms)))
        self._sweeps_cold = bool(records)
        if records:
            self._effects.writes.append(ShareWrite(records))
        return self._sweeps_cold

    def _old_states(self, now_ms: int) -> Iterator[SnapshotRecord]:
        """Yields snapshots, oldest first. A time in the future is from another broker's clock, and counts as old."""
        for key, entry in self._entries.items():
            if 0 <= now_ms - entry.state.written_ms < self.limits.cold_snapshot_interval_ms:
                return
            yield SnapshotRecord(key, rules.again(entry.state, now_ms))

    def _remove_gone(self) -> None:
        gone = self._gone

        def tombstones() -> Iterator[SnapshotRecord]:
            while gone:
                if gone[0] in self._entries:
                    yield SnapshotRecord(gone[0], None)
                # Removed only after its record was taken: if the tombstone does not fit in this write, the next write
                # begins with the key.
                gone.popleft()

        records = list(_in_one_write(tombstones()))
        if records:
            self._effects.writes.append(ShareWrite(records))

    def take(self) -> Effects[ShareRecord]:
        effects, self._effects = self._effects, Effects()
        return effects

    def written(self, write: Write[ShareRecord], code: ErrorCode, at: Instant) -> None:
        """Handles a failed write: tombstones are written again after a delay, snapshots in the next sweep."""
        if not code:
            return
        events.SHARE_STATES_WAIT.log(log, states=len(write.records), error=code.name)
        unremoved = [record.key for record in write.records if _is_tombstone(record)]
        if unremoved:
            self._gone += unremoved
            self._timers.set(_Sweep.REMOVE, at.after_ms(RETRY_MS))
        else:
            self._sweeps_cold = False
            self._timers.set(_Sweep.COLD, at.after_ms(self.limits.cold_snapshot_interval_ms))

    def close(self, _at: Instant) -> None:
        self.account.close()

    def unload(self) -> None:
        # Cleared first, which frees only the dicts, because the entries still refer to the keys. The entries are then
        # freed one by one.
        self._by_topic.clear()
        while self._entries:
            self._entries.popitem()


def _check_not_negative(
    partition: int, leader_epoch: LeaderEpoch | None = None, state_epoch: StateEpoch | None = None
) -> None:
    """Raises KafkaError: INVALID_REQUEST."""
    for name, number in (
        ("partition", partition),
        ("leader epoch", leader_epoch),
        ("state epoch", state_epoch),
    ):
        if number is not None and number < 0:
            raise KafkaError(E.INVALID_REQUEST, f"the {name} is negative")


def _too_many_batches() -> KafkaError:
    return KafkaError(
        E.POLICY_VIOLATION,
        f"the share partition would have more than {BATCHES_MAX} batches of records with the same state",
    )


def _is_tombstone(record: ShareRecord) -> bool:
    return isinstance(record, SnapshotRecord) and record.state is None


def _in_one_write(records: Iterable[SnapshotRecord]) -> Iterator[SnapshotRecord]:
    """Yields records that fit in one write; the first always does."""
    room = BYTES_PER_STEP
    for count, record in enumerate(records):
        room -= encoded_bytes(record)
        if count and (count == RECORDS_PER_STEP or room < 0):
            return
        yield record
