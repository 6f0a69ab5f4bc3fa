"""The rules of transactions: what a transactional id may become. Decisions only; no I/O, no clock.

Each function is given the state (None: the id is not known) and returns the next one, or the same one where nothing is
to be written, or raises the KafkaError that the client gets.
Source: `TransactionCoordinator` of Kafka 4.3 (KIP-98, KIP-360, KIP-588, KIP-890). Different on purpose: a producer that
was fenced cannot abort the transaction of the one that fenced it (Kafka looks at its id alone while a transaction is
open); a state that was decided is in force at once, its answer waits for the commit, so there are no pending states.
"""

from __future__ import annotations

from collections.abc import Collection

from trimaran.broker.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    EPOCH_MAX,
    PRODUCER_EPOCH_MAX,
    Transaction,
    TransactionState,
)
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)

S = TransactionState


# -- InitProducerId


def needs_producer_id(transaction: Transaction | None, told: Producer | None) -> bool:
    """Returns whether `init_producer` would take a new producer id."""
    if transaction is None:
        return True
    at_rest = transaction.state is S.EMPTY or transaction.state.is_complete
    return at_rest and _rotates(transaction, told)


def _rotates(transaction: Transaction, told: Producer | None) -> bool:
    """Returns whether its epochs are used up; a client that missed its last epoch may still have that one."""
    if told is None or told == _of(transaction):
        return transaction.epochs_used_up
    return transaction.epoch == EPOCH_MAX


def init_producer(
    transaction: Transaction | None,
    told: Producer | None,
    timeout_ms: int,
    new_producer_id: ProducerId,
    now_ms: int,
) -> Transaction:
    """A producer begins, or goes on after an error: then `told` are its id and epoch (KIP-360).

    An open transaction changes to PrepareAbort; the caller must try again when that is complete.

    Args:
        new_producer_id: used where `needs_producer_id` says so.

    Raises:
        KafkaError: PRODUCER_FENCED; CONCURRENT_TRANSACTIONS: the last transaction is still ending.
    """
    if transaction is None:
        return Transaction(new_producer_id, ProducerEpoch(0), timeout_ms, updated_ms=now_ms)
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if told is not None:
        _check_told(transaction, told)
    if transaction.state is S.ONGOING:
        if told is not None and told != _of(transaction):
            raise _fenced(transaction, told)  # asked long ago: its producer has gone on since then
        return fence(transaction, now_ms, is_told=told is not None)
    begun = transaction._replace(
        state=S.EMPTY,
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_PRODUCER_EPOCH,
        started_ms=NO_TIMESTAMP,
        updated_ms=now_ms,
    )
    last_epoch = NO_PRODUCER_EPOCH if told is None else told.epoch
    if _rotates(transaction, told):
        return begun._replace(
            producer_id=new_producer_id, epoch=ProducerEpoch(0), last_epoch=last_epoch
        )
    if told is not None and told != _of(transaction):
        return begun  # asked again: the answer got lost
    return begun._replace(epoch=ProducerEpoch(transaction.epoch + 1), last_epoch=last_epoch)


def _check_told(transaction: Transaction, told: Producer) -> None:
    """Checks that it is the present producer, or the one before, which did not get its response."""
    if told == _of(transaction):
        return
    if told == Producer(transaction.producer_id, transaction.last_epoch):
        return
    if _rotated_from(transaction, told) and transaction.last_epoch in (
        NO_PRODUCER_EPOCH,
        told.epoch,
    ):
        return
    raise _fenced(transaction, told)


def _fenced(transaction: Transaction, told: Producer) -> KafkaError:
    return KafkaError(
        ErrorCode.PRODUCER_FENCED,
        f"producer {told.id} epoch {told.epoch} is not {transaction.producer_id} epoch {transaction.epoch}",
    )


def _rotated_from(transaction: Transaction, told: Producer) -> bool:
    """`told` had used up its epochs, and the id has a new producer since then."""
    return (
        transaction.epoch == 0
        and told.id == transaction.previous_producer_id
        and told.epoch >= PRODUCER_EPOCH_MAX
    )


def _of(transaction: Transaction) -> Producer:
    return Producer(transaction.producer_id, transaction.epoch)


# -- partitions


def add_partitions(
    transaction: Transaction | None,
    producer: Producer,
    partitions: Collection[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Transaction:
    """The producer will write to these partitions.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED; CONCURRENT_TRANSACTIONS: the last transaction is still
            ending.
    """
    transaction = _current(transaction, producer)
    is_open = transaction.state is S.ONGOING
    if is_open and transaction.partitions.issuperset(partitions):
        return transaction
    return transaction._replace(
        state=S.ONGOING,
        partitions=transaction.partitions.union(partitions),
        previous_producer_id=transaction.producer_id,
        started_ms=transaction.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def verify_partitions(
    transaction: Transaction | None, producer: Producer, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether each is part of the producer's open transaction; TRANSACTION_ABORTABLE if not.

    Raises:
        KafkaError: as `add_partitions`.
    """
    transaction = _current(transaction, producer)
    added = transaction.partitions if transaction.state is S.ONGOING else frozenset()
    return {
        partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _current(transaction: Transaction | None, producer: Producer) -> Transaction:
    """Returns the state if `producer` may act on it now. It may be the next producer while markers are written."""
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if producer.id != transaction.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if producer.epoch != transaction.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    return transaction


# -- ends


def needs_next_producer_id(transaction: Transaction | None, client_version: int) -> bool:
    """Whether `end` would take a new producer id for the time after the transaction."""
    return (
        transaction is not None
        and client_version >= EPOCH_BUMP_VERSION
        and transaction.epochs_used_up
        and not transaction.state.is_prepared
    )


def end(
    transaction: Transaction | None,
    producer: Producer,
    *,
    is_commit: bool,
    client_version: int,
    new_producer_id: int,
    now_ms: int,
) -> Transaction:
    """The producer ends its transaction: Prepare* is next, or the same state if that was done already.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE; CONCURRENT_TRANSACTIONS: its
            markers are being written.
    """
    if transaction is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if client_version < EPOCH_BUMP_VERSION:
        return _end_without_bump(transaction, producer, is_commit, now_ms)
    return _end_with_bump(transaction, producer, is_commit, client_version, new_producer_id, now_ms)


def _end_without_bump(
    transaction: Transaction, producer: Producer, is_commit: bool, now_ms: int
) -> Transaction:
    """Up to version 1 a producer keeps its epoch, so a state may be told again and again."""
    if producer.id != transaction.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if producer.epoch != transaction.epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is S.ONGOING:
        return _prepared(transaction, is_commit, 0, now_ms)
    _check_same_end(transaction, is_commit)
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return transaction


def _end_with_bump(
    transaction: Transaction,
    producer: Producer,
    is_commit: bool,
    client_version: int,
    new_producer_id: int,
    now_ms: int,
) -> Transaction:
    """From version 2 on the epoch says whether the present transaction is meant or, asked again, the one before."""
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if producer == _of(transaction):
        if transaction.state is not S.ONGOING and is_commit:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "there is nothing to commit")
        next_id = new_producer_id if transaction.epochs_used_up else NO_PRODUCER_ID
        prepared = _prepared(transaction, is_commit, client_version, now_ms)
        return prepared._replace(
            epoch=ProducerEpoch(transaction.epoch + 1),
            last_epoch=transaction.epoch,
            next_producer_id=ProducerId(next_id),
        )
    # The transaction that was aborted in the last epoch was fenced: that epoch is not used any more.
    went_on = transaction.epoch < EPOCH_MAX and transaction.epoch - 1 == producer.epoch
    asked_again = transaction.state.is_complete and (
        (went_on and producer.id == transaction.producer_id) or _rotated_from(transaction, producer)
    )
    if asked_again:
        _check_same_end(transaction, is_commit)
        return transaction
    if producer.id != transaction.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)


def _check_same_end(transaction: Transaction, is_commit: bool) -> None:
    ends = (
        (S.PREPARE_COMMIT, S.COMPLETE_COMMIT) if is_commit else (S.PREPARE_ABORT, S.COMPLETE_ABORT)
    )
    if transaction.state not in ends:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, f"it is {transaction.state.shown}")


def _prepared(
    transaction: Transaction, is_commit: bool, client_version: int, now_ms: int
) -> Transaction:
    is_open = transaction.state is S.ONGOING
    return transaction._replace(
        state=S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT,
        partitions=transaction.partitions if is_open else frozenset(),
        previous_producer_id=transaction.producer_id,
        started_ms=transaction.started_ms if is_open else now_ms,
        updated_ms=now_ms,
        client_version=client_version,
    )


def fence(transaction: Transaction, now_ms: int, *, is_told: bool = False) -> Transaction:
    """Aborts an open transaction in an epoch of its own, so that its producer can do nothing more (T5).

    Args:
        is_told: its own producer has asked, and may go on with that epoch; else it is fenced.
    """
    assert transaction.state is S.ONGOING
    aborted = _prepared(transaction, False, transaction.client_version, now_ms)
    last_epoch = transaction.epoch if is_told else NO_PRODUCER_EPOCH
    return aborted._replace(
        epoch=ProducerEpoch(min(transaction.epoch + 1, EPOCH_MAX)), last_epoch=last_epoch
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    producer = transaction.told_producer
    is_commit = transaction.state is S.PREPARE_COMMIT
    return transaction._replace(
        state=S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT,
        producer_id=producer.id,
        epoch=producer.epoch,
        partitions=frozenset(),
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        next_epoch=NO_PRODUCER_EPOCH,
        updated_ms=now_ms,
    )


# -- time


def is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    """It has been open for longer than its producer has asked for."""
    return (
        transaction.state is S.ONGOING and now_ms >= transaction.started_ms + transaction.timeout_ms
    )


def is_expired(transaction: Transaction, expiration_ms: int, now_ms: int) -> bool:
    """Returns whether the id was not used for long enough to be forgotten."""
    at_rest = transaction.state is S.EMPTY or transaction.state.is_complete
    return at_rest and now_ms >= transaction.updated_ms + expiration_ms
