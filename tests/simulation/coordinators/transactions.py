"""The content of `__transaction_state`, replayed without the product's code, and the rules of transactions on it.

It is called for the batches of every topic, when a leader has appended a batch and again when it is committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tests.simulation.coordinators.batches import Batch
from tests.simulation.coordinators.outcomes import Outcomes
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.wire.messages.write_txn_markers import WritableTxnMarker
from trimaran.wire.records.transaction_log import TransactionLogKey, TransactionLogValue

Place = tuple[str, int]
"""A topic's name and a partition's index."""
Require = Callable[..., None]


class S(IntEnum):
    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


_AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
_FOLLOWS: dict[S | None, tuple[S, ...]] = {
    None: (S.EMPTY,),
    **dict.fromkeys(_AT_REST, (S.EMPTY, S.ONGOING, S.PREPARE_ABORT)),
    S.ONGOING: (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT),
    S.PREPARE_COMMIT: (S.COMPLETE_COMMIT,),
    S.PREPARE_ABORT: (S.COMPLETE_ABORT,),
}


class State(NamedTuple):
    producer_id: int
    epoch: int
    state: S
    partitions: frozenset[Place]


class Data(NamedTuple):
    """A batch in a transaction."""

    offset: int
    epoch: int
    values: tuple[bytes, ...]


class Transactions:
    """The replayed content; `open` has the batches of undecided transactions, by partition and producer id."""

    def __init__(self, require: Require, outcomes: Outcomes, *, has_own_epochs: bool) -> None:
        self._require = require
        self.has_own_epochs = has_own_epochs
        self._outcomes = outcomes
        self.states: dict[str, State] = {}
        self._appended: dict[str, list[State]] = defaultdict(list)
        # by producer id: the transactional id, and the newest epoch
        self.owners: dict[int, str] = {}
        self._newest: dict[int, int] = {}
        # The decisions by producer id and epoch: whether they were commits.
        self.decided: dict[tuple[int, int], set[bool]] = defaultdict(set)
        # The leader epoch of the coordinator's partition in which a decision was written.
        self._decided_in: dict[tuple[int, int], int] = {}
        self.open: defaultdict[Place, dict[int, list[Data]]] = defaultdict(dict)
        self._epochs: dict[tuple[Place, int], int] = {}
        self._coordinators: dict[tuple[Place, int], int] = {}

    # --- appended batches, which may be lost again

    def appended(self, place: Place, batch: Batch) -> None:
        if place[0] == TRANSACTION_STATE:
            for key, value in _states_in(batch):
                self._state_appended(key, value)
        elif batch.marker is not None:
            self._marker_appended(place, batch)

    def _state_appended(self, key: str, value: State | None) -> None:
        if value is None:
            return
        self._appended[key].append(value)
        if value.state not in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
            return
        before = self.states.get(key)
        if before is None or before.state not in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
            return
        for place, found in self.open.items():
            for data in found.get(before.producer_id, ()):
                self._require(
                    data.epoch > before.epoch,
                    *("T6", key, "is complete, and", place, "has no marker after", data.offset),
                )

    def _marker_appended(self, place: Place, batch: Batch) -> None:
        """Checks T6: the decision is durable before the first marker."""
        assert batch.marker is not None
        decisions = self.decided.get((batch.producer_id, batch.producer_epoch), set())
        self._require(
            batch.marker.is_commit in decisions,
            *("T6", place, "has a marker of", batch.producer_id, batch.producer_epoch),
            *(batch.marker, "decided is", decisions),
        )
        since = self._decided_in.get((batch.producer_id, batch.producer_epoch), -1)
        # Up to `transaction.version` 1 an epoch has many transactions, and a late marker may belong to an earlier one.
        if self.has_own_epochs:
            self._require(
                batch.marker.coordinator_epoch >= since,
                *("T6", place, "has a marker of", batch.marker, "decided in", since),
            )

    def may_fence(self, key: str, producer_id: int, epoch: int) -> bool:
        """Whether another producer has replaced this one, at least in a leader's log. Producer ids of different brokers
        have no common order.
        """
        was_there = False
        for state in self._appended.get(key, ()):
            if was_there and state.producer_id != producer_id:
                return True
            was_there = was_there or state.producer_id == producer_id
            if state.producer_id == producer_id and state.epoch > epoch:
                return True
        return False

    def has_been(self, key: str, producer_id: int, epoch: int) -> bool:
        """Whether the transactional id has had this producer and epoch, according to committed records."""
        return self.owners.get(producer_id) == key and self._newest[producer_id] >= epoch

    def has_newer_coordinator(self, place: Place, marker: WritableTxnMarker) -> bool:
        """Whether the partition has a marker for the producer from a later coordinator."""
        newest = self._coordinators.get((place, marker.producer_id), -1)
        return newest > marker.coordinator_epoch

    # --- committed batches

    def committed(self, place: Place, batch: Batch) -> None:
        if place[0] == TRANSACTION_STATE:
            for key, value in _states_in(batch):
                self._state_committed(key, value)
                if value is not None and value.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
                    self._decided_in[value.producer_id, value.epoch] = batch.leader_epoch
        elif batch.is_transactional:
            self._check_epoch(place, batch)
            if batch.marker is None:
                values = tuple(value or b"" for _, _, value in batch.records)
                is_internal = place[0] == CONSUMER_OFFSETS  # `Offsets` reads its values
                data = Data(batch.base, batch.producer_epoch, () if is_internal else values)
                self.open[place].setdefault(batch.producer_id, []).append(data)
            else:
                self._marker_committed(place, batch)

    def _state_committed(self, key: str, value: State | None) -> None:
        before = self.states.get(key)
        if value is None:
            self.states.pop(key, None)
            return
        self._require(
            value.state in _FOLLOWS[None if before is None else before.state],
            *("T7", key, "is", value, "after", before),
        )
        is_fresh = value.producer_id not in self.owners
        owner = self.owners.setdefault(value.producer_id, key)
        self._newest[value.producer_id] = value.epoch
        self._require(owner == key, "I4", value.producer_id, "is of", owner, "and", key)
        if before is not None:
            self._require(
                value.epoch >= before.epoch
                if value.producer_id == before.producer_id
                else is_fresh and value.epoch == 0,
                *("T5", key, "goes from", before, "to", value),
            )
        if value.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
            self.decided[value.producer_id, value.epoch].add(value.state is S.PREPARE_COMMIT)
        self.states[key] = value

    def _check_epoch(self, place: Place, batch: Batch) -> None:
        """Checks T5: a producer writes nothing after it was fenced."""
        known = self._epochs.get((place, batch.producer_id), -1)
        self._require(
            batch.producer_epoch >= known,
            *("T5", place, batch.base, "is of", batch.producer_id, "epoch", batch.producer_epoch),
            *("after", known),
        )
        self._epochs[place, batch.producer_id] = batch.producer_epoch

    def _marker_committed(self, place: Place, batch: Batch) -> None:
        assert batch.marker is not None
        who = (place, batch.producer_id)
        newest = self._coordinators.get(who, -1)
        epoch = batch.marker.coordinator_epoch
        self._require(epoch >= newest, "T6", place, "has a marker of", epoch, "after", newest)
        self._coordinators[who] = epoch
        for data in self.open[place].pop(batch.producer_id, ()):
            for value in data.values:
                self._outcomes.ended(value, batch.marker.is_commit)

    # --- the end

    def unfinished(self) -> list[str]:
        """Returns the transactions that have not ended."""
        return [
            f"{key}: {state}"
            for key, state in self.states.items()
            if state.state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
        ]


def _states_in(batch: Batch) -> list[tuple[str, State | None]]:
    found: list[tuple[str, State | None]] = []
    for _, key, value in batch.records:
        name = TransactionLogKey.decode(key[2:], 0).transactional_id
        found.append((name, None if value is None else _state(value)))
    return found


def _state(value: bytes) -> State:
    decoded = TransactionLogValue.decode(value[2:], int.from_bytes(value[:2], "big"))
    return State(
        decoded.producer_id,
        decoded.producer_epoch,
        S(decoded.transaction_status),
        frozenset(
            (transaction_partition.topic, index)
            for transaction_partition in decoded.transaction_partitions or ()
            for index in transaction_partition.partition_ids
        ),
    )
