"""The rules of transactions: the state changes of a transactional id. Pure decisions without I/O or a clock.

Each function takes the state (None for an unknown id) and returns the next state, or the same state if there is nothing
to write, or raises the KafkaError for the client. Source: `TransactionCoordinator` of Kafka 4.3 (KIP-98, KIP-360,
KIP-588, KIP-890). Intentional differences: a fenced producer cannot abort the transaction of its successor (Kafka only
compares producer ids while a transaction is open); a decided state takes effect immediately, and only its response
waits for the commit, so there are no pending states.
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
    """Returns whether `init_producer` would use a new producer id."""
    if transaction is None:
        return True
    at_rest = transaction.state is S.EMPTY or transaction.state.is_complete
    return at_rest and _rotates(transaction, told)


def _rotates(transaction: Transaction, told: Producer | None) -> bool:
    """Returns whether the producer id's epochs are used up; a client that missed the last epoch may still get it."""
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
    """Returns the state after a producer begins, or continues after an error: then `told` is its current id and epoch
    (KIP-360).

    An open transaction changes to PrepareAbort; the caller must retry when that is complete.

    Args:
        new_producer_id: used if `needs_producer_id` returns True.

    Raises:
        KafkaError: PRODUCER_FENCED; CONCURRENT_TRANSACTIONS while the last transaction is still ending.
    """
    if transaction is None:
        return Transaction(new_producer_id, ProducerEpoch(0), timeout_ms, updated_ms=now_ms)
    if transaction.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if told is not None:
        _check_producer(transaction, told)
    if transaction.state is S.ONGOING:
        if told is not None and told != _of(transaction):
            raise _fenced(transaction, told)  # a late request: its producer has continued since
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
        return begun  # a retry: the response was lost
    return begun._replace(epoch=ProducerEpoch(transaction.epoch + 1), last_epoch=last_epoch)


def _check_producer(transaction: Transaction, told: Producer) -> None:
    """Checks that `told` is the current producer, or the previous one that did not get its response."""
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
    """Whether `told` had used up its epochs, and the id has since got a new producer id."""
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
    """Returns the state after the producer has added partitions.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED; CONCURRENT_TRANSACTIONS while the last transaction is
            still ending.
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
    """Returns NONE for each partition of the producer's open transaction, TRANSACTION_ABORTABLE for all others.

    Raises:
        KafkaError: the codes of `add_partitions`.
    """
    transaction = _current(transaction, producer)
    added = transaction.partitions if transaction.state is S.ONGOING else frozenset()
    return {
        partition: ErrorCode.NONE if partition in added else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _current(transaction: Transaction | None, producer: Producer) -> Transaction:
    """Returns the state if `producer` may act on it now. Raises KafkaError otherwise, also while markers are
    written.
    """
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
    """Whether `end` would use a new producer id for the time after the transaction."""
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
    new_producer_id: ProducerId,
    now_ms: int,
) -> Transaction:
    """Returns the state after the producer ends its transaction: Prepare*, or the current state if the same end was
    already decided.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE; CONCURRENT_TRANSACTIONS while its
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
    """Ends the transaction up to version 1: the producer keeps its epoch, so the request may be repeated any number of
    times.
    """
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
    new_producer_id: ProducerId,
    now_ms: int,
) -> Transaction:
    """Ends the transaction from version 2 on: the epoch identifies the current transaction or, in a retry, the previous
    one.
    """
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
            next_producer_id=next_id,
        )
    # A transaction that was aborted in the last epoch was fenced: that epoch is no longer used.
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
    """Aborts an open transaction in an epoch of its own, so that its producer can no longer act on it (T5).

    Args:
        is_told: True if the producer itself requests the abort and may continue with that epoch; otherwise it is
            fenced.
    """
    assert transaction.state is S.ONGOING
    aborted = _prepared(transaction, False, transaction.client_version, now_ms)
    last_epoch = transaction.epoch if is_told else NO_PRODUCER_EPOCH
    return aborted._replace(
        epoch=ProducerEpoch(min(transaction.epoch + 1, EPOCH_MAX)), last_epoch=last_epoch
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Returns the state after all markers have been written."""
    producer = transaction.response_producer
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
    """Whether the transaction has been open for longer than the timeout of its producer."""
    return (
        transaction.state is S.ONGOING and now_ms >= transaction.started_ms + transaction.timeout_ms
    )


def is_expired(transaction: Transaction, expiration_ms: int, now_ms: int) -> bool:
    """Returns whether the id has been unused for long enough to be removed."""
    at_rest = transaction.state is S.EMPTY or transaction.state.is_complete
    return at_rest and now_ms >= transaction.updated_ms + expiration_ms
