"""One partition of `__transaction_state` as a state machine: transactional ids and their transactions. No I/O.

It is a `CoordinatorShard`. A decision (Prepare*) names a follow-up of the runtime: once the record is committed (T6),
`trimaran.broker.transactions.markers` writes the markers and calls `complete`. After a fail-over, decisions found in
the log are completed in the same way (T7). Source: Kafka's `TransactionStateManager`, `TransactionCoordinator`.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from typing import Any
from weakref import WeakSet

from trimaran.broker import events
from trimaran.broker.coordination.memory import Account
from trimaran.broker.coordination.shard import Effects, Write
from trimaran.broker.coordination.timers import Instant, Timers
from trimaran.broker.transactions import rules
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.memory import TRANSACTIONS_BYTES_MAX, held_bytes
from trimaran.broker.transactions.records import TransactionRecord, TransactionWrite
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, ProducerId, TopicPartition

log = logging.getLogger(__name__)

# The bounds of one step of a sweep: the ids examined, the transactions aborted (one write each), and the tombstones of
# one write. Each is 5 ms of work, together 10 ms. The next step is due immediately, after other tasks.
LOOKED_AT_PER_STEP = 5_000
ABORTED_PER_STEP = 50
EXPIRED_PER_STEP = 250


class _Timer(Enum):
    ABORT = "abort"  # looks for transactions past their timeout
    EXPIRY = "expiry"  # looks for unused ids


class TransactionCoordinatorShard:
    """The state of one partition; `transactions` has the replayed state by transactional id."""

    def __init__(self, limits: TransactionLimits, accounts: WeakSet[Account] | None = None) -> None:
        self.limits = limits
        self.account = Account(accounts)
        self.transactions: dict[str, Transaction] = {}
        # The ids in state Ongoing, which are few.
        self._open: dict[str, None] = {}
        # The responses that wait for the end of decided transactions; at most one per request in progress.
        self._waiting: defaultdict[str, list[PendingResponse[Any]]] = defaultdict(list)
        self._timers = Timers[_Timer]()
        # The ids that the current sweep has not examined yet.
        self._to_abort: deque[str] = deque()
        self._to_expire: deque[str] = deque()
        self._effects: Effects[TransactionRecord] = Effects()
        self._serving = False

    # -- inputs

    def init_producer(
        self,
        transactional_id: str,
        told: Producer | None,
        timeout_ms: int,
        new_producer_id: ProducerId,
        at: Instant,
    ) -> Result[TransactionRecord, Transaction]:
        """Raises KafkaError as `rules.init_producer` does, and POLICY_VIOLATION if there is no room for a new id."""
        before = self.transactions.get(transactional_id)
        after = rules.init_producer(before, told, timeout_ms, new_producer_id, at.now_ms)
        self._check_room(transactional_id, before, after)
        return _result(transactional_id, before, after)

    def add_partitions(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        client_version: int,
        at: Instant,
    ) -> Result[TransactionRecord, Transaction]:
        """Raises KafkaError as `rules.add_partitions` does, and POLICY_VIOLATION if there is no room for the
        partitions.
        """
        before = self.transactions.get(transactional_id)
        after = rules.add_partitions(before, producer, partitions, client_version, at.now_ms)
        self._check_room(transactional_id, before, after)
        return _result(transactional_id, before, after)

    def _check_room(
        self, transactional_id: str, before: Transaction | None, after: Transaction
    ) -> None:
        more = held_bytes(transactional_id, after) - held_bytes(transactional_id, before)
        if not self.account.fits(more, TRANSACTIONS_BYTES_MAX):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                "the transactional ids of this broker take as much memory as they may: use one that exists, or wait "
                "until others expire (transactional.id.expiration.ms)",
            )

    def verify_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> Result[TransactionRecord, dict[TopicPartition, ErrorCode]]:
        """Raises KafkaError as `rules.verify_partitions` does."""
        transaction = self.transactions.get(transactional_id)
        return Result((), rules.verify_partitions(transaction, producer, partitions))

    def end(
        self,
        transactional_id: str,
        producer: Producer,
        is_commit: bool,
        client_version: int,
        new_producer_id: ProducerId,
        at: Instant,
    ) -> Result[TransactionRecord, Transaction]:
        """Raises KafkaError as `rules.end` does."""
        before = self.transactions.get(transactional_id)
        after = rules.end(
            before,
            producer,
            is_commit=is_commit,
            client_version=client_version,
            new_producer_id=new_producer_id,
            now_ms=at.now_ms,
        )
        return _result(transactional_id, before, after)

    def complete(
        self, transactional_id: str, decided: Transaction, at: Instant
    ) -> Result[TransactionRecord, None]:
        """Completes the transaction after all its markers have been written; does nothing if the id has left the state
        `decided`.

        No client waits for the record: a coordinator that does not find it writes the markers again. The record that
        begins the next transaction follows soon, and both need one flush instead of two.
        """
        if self.transactions.get(transactional_id) is not decided:
            return Result((), None)
        record = TransactionRecord(transactional_id, rules.complete(decided, at.now_ms))
        return Result((record,), None, is_awaited=False)

    def await_end(self, transactional_id: str, token: PendingResponse[Any]) -> None:
        """Completes `token` with True when the decided transaction is complete or the epoch is over."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not transaction.state.is_prepared:
            self._effects.responses.append((token, True))
        else:
            self._waiting[transactional_id].append(token)

    def forget_waiting(self, transactional_id: str, token: PendingResponse[Any]) -> None:
        """Drops `token`, because its request has given up."""
        waiting = self._waiting.get(transactional_id)
        if waiting is not None and token in waiting:
            waiting.remove(token)
            if not waiting:
                del self._waiting[transactional_id]

    def decided(self, transactional_id: str) -> Transaction | None:
        """Returns the transaction whose markers are to be written."""
        transaction = self.transactions.get(transactional_id)
        return transaction if transaction is not None and transaction.state.is_prepared else None

    # -- calls of the runtime

    def replay(
        self,
        _offset: Offset,
        record: TransactionRecord,
        _producer: Producer | None = None,
    ) -> None:
        """Applies a record of the log: transactions only change in this way."""
        transactional_id, transaction = record
        self.account.bytes += held_bytes(transactional_id, transaction)
        self.account.bytes -= held_bytes(transactional_id, self.transactions.get(transactional_id))
        self._open.pop(transactional_id, None)
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
            if transaction.state is TransactionState.ONGOING:
                self._open[transactional_id] = None
        if transaction is not None and transaction.state.is_prepared:
            if self._serving:
                self._effects.follow_ups.append(transactional_id)
        else:
            for token in self._waiting.pop(transactional_id, ()):
                self._effects.responses.append((token, True))

    def complete_transaction(self, producer: Producer, is_commit: bool) -> None:
        """Does nothing: records of this topic are not part of transactions."""

    def finish_load(self) -> None:
        pass

    def loaded(self, at: Instant) -> None:
        """Continues with the transactions that the previous coordinator has decided."""
        self._serving = True
        self._effects.follow_ups += [
            transactional_id
            for transactional_id, transaction in self.transactions.items()
            if transaction.state.is_prepared
        ]
        # The first sweep is due immediately: if the coordinator moved more often than once per interval, transactions
        # would otherwise never time out.
        self._timers.set(_Timer.ABORT, at.now)
        self._timers.set(_Timer.EXPIRY, at.after_ms(self.limits.expiry_interval_ms))

    def deadline(self) -> float | None:
        return self._timers.earliest()

    def handle_timeout(self, at: Instant) -> None:
        due = []
        while (timer := self._timers.pop_due(at.now)) is not None:
            due.append(timer)
        for timer in due:
            if timer is _Timer.ABORT:
                is_left, interval_ms = self._abort_timed_out(at), self.limits.abort_interval_ms
            else:
                is_left, interval_ms = self._expire(at), self.limits.expiry_interval_ms
            self._timers.set(timer, at.now if is_left else at.after_ms(interval_ms))

    def _abort_timed_out(self, at: Instant) -> bool:
        """Continues or begins a sweep. Returns True if ids are left."""
        ids = self._to_abort = self._to_abort or deque(self._open)
        aborted = 0
        for transactional_id in _taken(ids, LOOKED_AT_PER_STEP):
            transaction = self.transactions.get(transactional_id)
            if transactional_id not in self._open or transaction is None:
                continue  # the transaction has ended meanwhile
            if rules.is_timed_out(transaction, at.now_ms):
                events.TRANSACTION_TIMED_OUT.log(
                    log, transactional_id=transactional_id, timeout_ms=transaction.timeout_ms
                )
                fenced = rules.fence(transaction, at.now_ms)
                self._write([TransactionRecord(transactional_id, fenced)])
                aborted += 1
                if aborted == ABORTED_PER_STEP:
                    break
        return bool(ids)

    def _expire(self, at: Instant) -> bool:
        """Continues or begins a sweep for unused ids, as `_abort_timed_out` does for open transactions."""
        ids = self._to_expire = self._to_expire or deque(self.transactions)
        expired = []
        for transactional_id in _taken(ids, LOOKED_AT_PER_STEP):
            transaction = self.transactions.get(transactional_id)
            if transaction is not None and rules.is_expired(
                transaction, self.limits.id_expiration_ms, at.now_ms
            ):
                expired.append(TransactionRecord(transactional_id, None))
                if len(expired) == EXPIRED_PER_STEP:
                    break
        if expired:
            self._write(expired)
        return bool(ids)

    def _write(self, records: Iterable[TransactionRecord]) -> None:
        self._effects.writes.append(TransactionWrite(tuple(records)))

    def take(self) -> Effects[TransactionRecord]:
        effects, self._effects = self._effects, Effects()
        return effects

    def written(self, write: Write[TransactionRecord], code: ErrorCode, _at: Instant) -> None:
        """Logs a failure; the next sweep finds the same ids again."""
        if code:
            events.TRANSACTION_TIMEOUTS_WAIT.log(
                log, transactions=len(write.records), error=code.name
            )

    def close(self, _at: Instant) -> None:
        """Ends the epoch: waiting requests retry, and get NOT_COORDINATOR."""
        for tokens in self._waiting.values():
            self._effects.responses += [(token, True) for token in tokens]
        self._waiting.clear()
        self.account.close()

    def unload(self) -> None:
        while self.transactions:
            self.transactions.popitem()


def _taken(ids: deque[str], most: int) -> Iterator[str]:
    """Removes and yields up to `most` ids."""
    for _ in range(min(most, len(ids))):
        yield ids.popleft()


def _result(
    transactional_id: str, before: Transaction | None, after: Transaction
) -> Result[TransactionRecord, Transaction]:
    records = () if after is before else (TransactionRecord(transactional_id, after),)
    return Result(records, after)
