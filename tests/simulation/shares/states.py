"""The content of `__share_group_state`, replayed without the product's state machine, and the rules of stored states
(docs/invariants.md, Q6 to Q8 and Q11). The states are those of all committed records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.simulation.coordinators.batches import Batch
from trimaran.broker.share_state.records import ShareRecordSerde, SnapshotRecord, UpdateRecord
from trimaran.broker.share_state.states import DeliveryState, StateBatch
from trimaran.wire.identity import SharePartitionKey

Require = Callable[..., None]
Rank = tuple[int, DeliveryState]
"""The delivery count of a record, and its state: the higher one is the newer one."""
# Receives a share partition, its life, and the records that its start has passed: (offset, whether the state is final).
Passed = Callable[[SharePartitionKey, "Life", int, bool], None]
Life = tuple[int, int]
"""The state epoch of a share partition, and how often its state was initialized or deleted before: an operator may
alter offsets twice in one state epoch."""
# Receives a share partition, its new life, and the start offset of that life.
Begins = Callable[[SharePartitionKey, Life, int], None]
# Receives a share partition, its life, and a record with a final state.
Done = Callable[[SharePartitionKey, Life, int, DeliveryState], None]
FINAL = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVING, DeliveryState.ARCHIVED})
NO_OFFSET = -1


@dataclass(slots=True)
class Stored:
    """The state of one share partition; `ranks` has the records from `start` on that have a state."""

    state_epoch: int
    leader_epoch: int
    start: int
    snapshot_epoch: int
    snapshot_at: tuple[int, int]
    ranks: dict[int, Rank] = field(default_factory=dict)


class States:
    """All states; `begun` counts the initializations and deletions of a share partition's state."""

    def __init__(self, require: Require, passed: Passed, begins: Begins, done: Done) -> None:
        self._require = require
        self._done = done
        self._begins = begins
        self._passed = passed
        self._serde = ShareRecordSerde()
        self.stored: dict[SharePartitionKey, Stored] = {}
        self.begun: Counter[SharePartitionKey] = Counter()
        self.ever: set[SharePartitionKey] = set()
        self._initial: set[tuple[object, ...]] = set()
        # By shard: the offset behind its last record.
        self._ends: dict[int, int] = {}

    def life(self, key: SharePartitionKey) -> Life:
        """Returns the life of a state; epoch -1 if there is none."""
        stored = self.stored.get(key)
        return (-1 if stored is None else stored.state_epoch, self.begun[key])

    def needed_from(self, shard: int) -> int:
        """Returns the offset of the first record of a shard that may not be deleted."""
        needed = [at for place, at in self._snapshots() if place == shard]
        return min(needed, default=self._ends.get(shard, 0))

    def _snapshots(self) -> Iterable[tuple[int, int]]:
        return (stored.snapshot_at for stored in self.stored.values())

    # -- records

    def initializes(self, record: SnapshotRecord) -> None:
        """Notes a decision to store a new state. Its record looks like the snapshot of a state in use."""
        self._initial.add(_identity(record))

    def committed(self, shard: int, batch: Batch) -> None:
        for offset, key, value in batch.records:
            record = self._serde.decode(key, value)
            if isinstance(record, UpdateRecord):
                self._update(record)
            elif isinstance(record, SnapshotRecord):
                self._snapshot(record, (shard, offset))
        self._ends[shard] = batch.last + 1

    def _snapshot(self, record: SnapshotRecord, at: tuple[int, int]) -> None:
        key, state = record
        before = self.stored.get(key)
        if state is None:
            self.stored.pop(key, None)
            self.begun[key] += 1
            return
        self.ever.add(key)
        begins = _identity(record) in self._initial
        if begins:
            self.begun[key] += 1
            self._begins(key, (state.state_epoch, self.begun[key]), state.start_offset)
        stored = Stored(state.state_epoch, state.leader_epoch, state.start_offset, 0, at)
        stored.snapshot_epoch = state.snapshot_epoch
        stored.ranks = _ranks(state.batches)
        self.stored[key] = stored
        if before is None:
            return
        self._require(
            state.state_epoch >= before.state_epoch,
            *("Q8", key, "goes from state epoch", before.state_epoch, "to", state.state_epoch),
        )
        self._require(
            state.snapshot_epoch > before.snapshot_epoch,
            *("Q7", key, "has the snapshot", state.snapshot_epoch, "after", before.snapshot_epoch),
        )
        if state.state_epoch == before.state_epoch and not begins:
            self._follows(key, before, stored)

    def _update(self, record: UpdateRecord) -> None:
        key, before = record.key, self.stored.get(record.key)
        self._require(before is not None, "Q7", key, "is updated without a snapshot")
        if before is None:
            return
        after = Stored(
            before.state_epoch,
            before.leader_epoch if record.leader_epoch < 0 else record.leader_epoch,
            before.start if record.start_offset == NO_OFFSET else record.start_offset,
            before.snapshot_epoch,
            before.snapshot_at,
            dict(before.ranks),
        )
        self._require(
            record.snapshot_epoch == before.snapshot_epoch,
            *("Q7", key, "is updated in snapshot", record.snapshot_epoch),
            *("not", before.snapshot_epoch),
        )
        for offset, rank in _ranks(record.batches).items():
            after.ranks[offset] = max(rank, after.ranks.get(offset, rank))
        self._follows(key, before, after)
        after.ranks = {
            offset: rank for offset, rank in after.ranks.items() if offset >= after.start
        }
        self.stored[key] = after

    def _follows(self, key: SharePartitionKey, before: Stored, after: Stored) -> None:
        """Checks Q6 to Q8 between two successive states of one life."""
        self._require(
            after.leader_epoch >= before.leader_epoch,
            *("Q8", key, "goes from leader epoch", before.leader_epoch, "to", after.leader_epoch),
        )
        self._require(
            after.start >= before.start,
            *("Q6", key, "goes from", before.start, "back to", after.start),
        )
        for offset, rank in before.ranks.items():
            if offset < after.start:
                continue
            now = after.ranks.get(offset)
            self._require(
                now is not None and now >= rank and (rank[1] not in FINAL or now[1] in FINAL),
                *("Q7", key, offset, "goes from", rank, "to", now),
            )
        for offset, (_, state) in after.ranks.items():
            known = before.ranks.get(offset)
            if state in FINAL and (known is None or known[1] not in FINAL):
                self._done(key, (before.state_epoch, self.begun[key]), offset, state)
        if before.start == NO_OFFSET:
            return  # the leader has chosen the group's first offset
        life = (before.state_epoch, self.begun[key])
        for offset in range(before.start, after.start):
            ranks = [ranks.get(offset) for ranks in (before.ranks, after.ranks)]
            is_final = any(rank is not None and rank[1] in FINAL for rank in ranks)
            self._passed(key, life, offset, is_final)

    # -- responses

    def has(self, key: SharePartitionKey, batches: Iterable[StateBatch]) -> None:
        """Checks Q7: a write that was answered without an error is stored."""
        stored = self.stored.get(key)
        if stored is None:
            return
        for offset, rank in _ranks(batches).items():
            if offset >= stored.start:
                found = stored.ranks.get(offset)
                self._require(
                    found is not None and found >= rank,
                    *("Q7", key, offset, "was answered as", rank, "and stored is", found),
                )

    def is_final(self, key: SharePartitionKey, offset: int) -> bool:
        """Whether a record is done, or precedes the start."""
        stored = self.stored.get(key)
        if stored is None:
            return False
        rank = stored.ranks.get(offset)
        return offset < stored.start or (rank is not None and rank[1] in FINAL)


def _identity(record: SnapshotRecord) -> tuple[object, ...]:
    key, state = record
    assert state is not None
    return (key, state.snapshot_epoch, state.state_epoch, state.created_ms, state.written_ms)


def _ranks(batches: Iterable[StateBatch]) -> dict[int, Rank]:
    found: dict[int, Rank] = {}
    for first, last, state, count in batches:
        for offset in range(first, last + 1):
            found[offset] = max((count, state), found.get(offset, (count, state)))
    return found
