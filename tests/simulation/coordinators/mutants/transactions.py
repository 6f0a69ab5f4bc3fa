"""Bugs of the transaction coordinator: fencing, decisions, markers, verification. Numbers are those of Kafka's
tracker.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from trimaran.broker.coordination.effects import EffectRunner
from trimaran.broker.producing.producer_ids import ProducerIdManager
from trimaran.broker.transactions import markers, rules
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.shard import TransactionCoordinatorShard
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.broker.transactions.verification import TransactionVerifier
from trimaran.log.producers.state import ProducerState
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode

Patch = AbstractContextManager[Any]
S = TransactionState


def _fencing_keeps_the_epoch() -> Patch:
    real = rules.fence

    def fence(transaction: Transaction, now_ms: int, **options: Any) -> Transaction:
        return real(transaction, now_ms, **options)._replace(epoch=transaction.epoch)

    return mock.patch.object(rules, "fence", fence)


def _begins_in_the_same_epoch() -> Patch:
    real = rules.init_producer

    def init(before: Transaction | None, *arguments: Any) -> Transaction:
        after = real(before, *arguments)
        is_next = before is not None and after.producer_id == before.producer_id
        if before is not None and is_next and after.state is S.EMPTY:
            return after._replace(epoch=before.epoch)
        return after

    return mock.patch.object(rules, "init_producer", init)


def _begins_beside_an_open_transaction() -> Patch:
    """An open transaction is forgotten, not aborted."""
    real = rules.init_producer

    def init(before: Transaction | None, *arguments: Any) -> Transaction:
        if before is not None and before.state is S.ONGOING:
            before = before._replace(state=S.EMPTY, partitions=frozenset())
        return real(before, *arguments)

    return mock.patch.object(rules, "init_producer", init)


def _complete_before_the_markers() -> Patch:
    async def nothing(*_arguments: Any) -> None:
        return

    return mock.patch.object(MarkerWriter, "_write_all", nothing)


def _one_attempt_at_markers() -> Patch:
    """Redpanda #6018: markers that the first attempt did not write are never written."""

    async def once(self: MarkerWriter, epoch: Any, _id: str, decided: Transaction) -> None:
        await self._write_some(epoch.leader_epoch, decided, decided.partitions)

    return mock.patch.object(MarkerWriter, "_write_all", once)


def _every_answer_is_done() -> Patch:
    return mock.patch.object(markers, "_is_done", return_value=True)


def _markers_say_the_opposite_of_commits() -> Patch:
    real = markers._to_request

    def request(marker: Any) -> Any:
        made = real(marker)
        made.transaction_result = False
        return made

    return mock.patch.object(markers, "_to_request", request)


def _markers_of_old_coordinators() -> Patch:
    """KAFKA-16352 and similar bugs: a former coordinator keeps writing."""
    real = ProducerState.check_marker

    def check(self: ProducerState, marker: Any, *arguments: Any) -> None:
        real(self, marker._replace(coordinator_epoch=1 << 30), *arguments)

    return mock.patch.object(ProducerState, "check_marker", check)


def _markers_with_the_first_coordinators_epoch() -> Patch:
    """All markers carry coordinator epoch 0, so former coordinators are not fenced."""
    real = markers._to_request

    def request(marker: Any) -> Any:
        return real(marker._replace(coordinator_epoch=0))

    return mock.patch.object(markers, "_to_request", request)


def _markers_of_any_epoch() -> Patch:
    """KAFKA-19446."""
    return mock.patch.object(ProducerState, "check_marker", return_value=None)


def _markers_before_the_decision_is_durable() -> Patch:
    def begin(self: Any) -> None:
        while self._follow_ups:
            self._begin(self._follow_ups.popleft()[1])

    return mock.patch.object(EffectRunner, "_begin_follow_ups", begin)


def _decisions_are_forgotten() -> Patch:
    """A coordinator that takes over does not continue pending transactions."""
    real = TransactionCoordinatorShard.loaded

    def loaded(self: TransactionCoordinatorShard, at: Any) -> None:
        real(self, at)
        self._effects.follow_ups.clear()

    return mock.patch.object(TransactionCoordinatorShard, "loaded", loaded)


def _new_coordinator_aborts_decided_transactions() -> Patch:
    """Redpanda #9571."""
    real = TransactionCoordinatorShard.loaded

    def loaded(self: TransactionCoordinatorShard, at: Any) -> None:
        for name, transaction in self.transactions.items():
            if transaction.state is S.PREPARE_COMMIT:
                self.transactions[name] = transaction._replace(state=S.PREPARE_ABORT)
        real(self, at)

    return mock.patch.object(TransactionCoordinatorShard, "loaded", loaded)


def _any_producer_may_end() -> Patch:
    real = rules.end

    def end(transaction: Transaction | None, producer: Producer, **options: Any) -> Transaction:
        is_open = transaction is not None and transaction.state is S.ONGOING
        if transaction is not None and is_open and producer.id == transaction.producer_id:
            producer = Producer(producer.id, transaction.epoch)
        return real(transaction, producer, **options)

    return mock.patch.object(rules, "end", end)


def _late_endtxn_ends_the_next_transaction() -> Patch:
    """KAFKA-17754 occurs although every transaction has its own epoch."""
    real = rules._end_with_bump

    def end(transaction: Transaction, producer: Producer, *arguments: Any) -> Transaction:
        is_late = producer == Producer(transaction.producer_id, transaction.epoch - 1)
        if is_late and transaction.state is S.ONGOING:
            producer = Producer(producer.id, transaction.epoch)
        return real(transaction, producer, *arguments)

    return mock.patch.object(rules, "_end_with_bump", end)


def _any_producer_may_add_partitions() -> Patch:
    def current(transaction: Transaction | None, producer: Producer) -> Transaction:
        if transaction is None:
            return real(transaction, producer)
        return real(transaction, Producer(transaction.producer_id, transaction.epoch))

    real = rules._current
    return mock.patch.object(rules, "_current", current)


def _adds_while_markers_are_written() -> Patch:
    real = rules._current

    def current(transaction: Transaction | None, producer: Producer) -> Transaction:
        if transaction is not None and transaction.state.is_prepared:
            return transaction._replace(state=S.EMPTY, partitions=frozenset())
        return real(transaction, producer)

    return mock.patch.object(rules, "_current", current)


def _added_partitions_replace_others() -> Patch:
    real = rules.add_partitions

    def add(before: Transaction | None, producer: Producer, partitions: Any, *rest: Any) -> Any:
        after = real(before, producer, partitions, *rest)
        return after if after is before else after._replace(partitions=frozenset(partitions))

    return mock.patch.object(rules, "add_partitions", add)


def _nothing_is_verified() -> Patch:
    """KAFKA-14402: hanging transactions."""

    def checking(_self: Any, _id: str, _producer: Any, partitions: Any, *_rest: Any) -> Any:
        return dict.fromkeys(partitions, ErrorCode.NONE)
        yield

    return mock.patch.object(TransactionVerifier, "_checking", checking)


def _verification_outlives_a_marker() -> Patch:
    """KAFKA-15449: a marker was written between the coordinator's verification and the append."""
    return mock.patch.object(ProducerState, "ended_since", return_value=False)


def _open_for_ever() -> Patch:
    return mock.patch.object(TransactionCoordinatorShard, "_abort_timed_out", return_value=None)


def _epochs_do_not_end() -> Patch:
    """A producer gets the epoch that is reserved for fencing it."""
    return mock.patch.object(Transaction, "epochs_used_up", property(lambda _self: False))


def _producer_ids_are_allocated_twice() -> Patch:
    """KAFKA-15552."""
    counts: dict[ProducerIdManager, int] = {}

    async def take(self: ProducerIdManager) -> int:
        counts[self] = counts.get(self, -1) + 1
        return counts[self]

    return mock.patch.object(ProducerIdManager, "take", take)


_TV1, _TV2 = {"bumps": False}, {"bumps": True}
_RIVALS = {"rivals": True, "transformers": 2, "freeze": 0.2, "transaction_ms": 2500}
_MOVES = {
    "balance_every": 0.15,
    "crash_every": 1.5,
    "delay_max": 0.1,
    "slow_every": 0.3,
    "partition_every": 0.0,
    "isolate_every": 0.0,
    "rivals": False,
}
# An abandoned request arrives after its sender, or a successor, has continued.
_STUCK = {
    "stuck": 0.0,
    "stuck_ends": 0.3,
    "delay_max": 0.02,
    "balance_every": 0.4,
    "crash_every": 0.0,
    "partition_every": 0.0,
    "isolate_every": 0.0,
    "rivals": False,
    "freeze": 0.0,
}
_FROZEN = {"freeze": 0.4, "transaction_ms": 2500, "balance_every": 0.0}
ENDS = ("answer", "T6", "T1", "T10", "T5", "L1", "T7", "T3", "G3")
TRANSACTIONS: tuple[tuple[str, Any, tuple[str, ...], dict[str, Any]], ...] = (
    ("fencing keeps the epoch", _fencing_keeps_the_epoch, ENDS, {**_RIVALS, **_TV2}),
    ("begins in the same epoch", _begins_in_the_same_epoch, ENDS, _RIVALS),
    ("begins beside an open transaction", _begins_beside_an_open_transaction, ENDS, _RIVALS),
    ("complete before the markers", _complete_before_the_markers, ENDS, {}),
    ("one attempt at markers", _one_attempt_at_markers, ENDS, _MOVES),
    ("every answer is done", _every_answer_is_done, ENDS, _MOVES),
    ("markers abort what was committed", _markers_say_the_opposite_of_commits, ENDS, {}),
    (
        "markers of old coordinators",
        _markers_of_old_coordinators,
        ENDS,
        {**_STUCK, **_TV1},
    ),
    (
        "markers name the first coordinator",
        _markers_with_the_first_coordinators_epoch,
        ENDS,
        _MOVES,
    ),
    ("markers of any epoch", _markers_of_any_epoch, ENDS, {**_STUCK, **_TV2}),
    ("markers before the decision is durable", _markers_before_the_decision_is_durable, ENDS, {}),
    ("decisions are forgotten", _decisions_are_forgotten, ENDS, _MOVES),
    (
        "new coordinator aborts decided transactions",
        _new_coordinator_aborts_decided_transactions,
        ENDS,
        _MOVES,
    ),
    ("any producer may end", _any_producer_may_end, ENDS, _RIVALS),
    (
        "late EndTxn ends the next transaction",
        _late_endtxn_ends_the_next_transaction,
        ENDS,
        {**_STUCK, **_FROZEN, **_TV2},
    ),
    ("any producer may add partitions", _any_producer_may_add_partitions, ENDS, _RIVALS),
    ("adds while markers are written", _adds_while_markers_are_written, ENDS, {}),
    ("added partitions replace others", _added_partitions_replace_others, ENDS, {"outputs": 2}),
    ("nothing is verified", _nothing_is_verified, ENDS, {}),
    (
        "verification outlives a marker",
        _verification_outlives_a_marker,
        ENDS,
        {**_STUCK, "stuck": 0.1, **_TV1},
    ),
    ("open for ever", _open_for_ever, ENDS, {}),
    ("epochs do not end", _epochs_do_not_end, ENDS, {**_RIVALS, "epoch_max": 3}),
    ("producer ids are allocated twice", _producer_ids_are_allocated_twice, ("I4", *ENDS), {}),
)
