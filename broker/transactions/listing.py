"""Descriptions of transactions: one by its id, or all that match a filter (KIP-664, KIP-994, KIP-1152).

Source: `TransactionCoordinator.handleDescribeTransactions`, `TransactionStateManager.listTransactionStates` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import re2

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.transactions.coordinator import TransactionCoordinator
from trimaran.broker.transactions.records import partitions_by_topic
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.node.runtime.steps import pieces
from trimaran.node.runtime.threads import run_computing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import ProducerEpoch, ProducerId
from trimaran.wire.messages import describe_transactions as described
from trimaran.wire.messages.list_transactions import ListTransactionsRequest
from trimaran.wire.transport.scheduling.effects import Handling, Wait

Matches = Callable[[str], object]
# The number of ids examined between two yields of a request: 0.5 ms of work.
IDS_PER_STEP = 250
# The number of names that are matched in one run of the thread.
MATCHED_NAMES_MAX = 100
MATCHED_CHARACTERS_MAX = 10_000
# The maximum length of a pattern; transactional ids are shorter.
PATTERN_LENGTH_MAX = 1_000
PATTERN_MEMORY_BYTES_MAX = 1 << 20
# Kafka also has the states Dead and PrepareEpochFence. No transaction has them here, but a filter may name them.
STATE_NAMES = frozenset(state.shown for state in TransactionState) | {"Dead", "PrepareEpochFence"}


def describe(
    coordinator: TransactionCoordinator, transactional_id: str
) -> described.TransactionState:
    """Returns the description of a transaction. If this broker does not know the id, returns a description with
    TRANSACTIONAL_ID_NOT_FOUND or the code of the reason.
    """
    try:
        shard = coordinator.epoch_of(transactional_id).active()
    except KafkaError as error:
        return not_described(transactional_id, error.code)
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return not_described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return described.TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.shown,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        topics=[
            described.TopicData(topic=name, partitions=indexes)
            for name, indexes in partitions_by_topic(transaction.partitions).items()
        ],
    )


def not_described(transactional_id: str, code: ErrorCode) -> described.TransactionState:
    """Returns the error in place of a description."""
    return described.TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=ProducerId(0),
        producer_epoch=ProducerEpoch(0),
        topics=[],
    )


def candidates(
    coordinator: TransactionCoordinator, request: ListTransactionsRequest, now_ms: int
) -> Iterator[dict[str, Transaction]]:
    """Yields the transactions of all shards that pass all filters except the pattern, from `IDS_PER_STEP` ids at a
    time.

    Raises:
        KafkaError: COORDINATOR_LOAD_IN_PROGRESS while a shard is being loaded.
    """
    for epoch in list(coordinator.runtime.epochs):
        if epoch.state is ShardState.CLOSED:
            continue
        for some in pieces(epoch.active().transactions.items(), IDS_PER_STEP):
            yield {
                name: transaction
                for name, transaction in some
                if _passes(request, now_ms, transaction)
            }


def matching(matches: Matches | None, names: list[str], whom: int) -> Handling[list[str]]:
    """Returns the names that match the pattern, for the connection with the id `whom`. A thread matches them in pieces:
    a pattern may take two milliseconds for a name, and 50 ms for the longest name.
    """
    if matches is None:
        return names
    found: list[str] = []
    while names:
        some, names = _first(names)
        found += yield Wait(partial(run_computing, _filter, matches, some, whom=whom))
    return found


def _filter(matches: Matches, names: list[str]) -> list[str]:
    return [name for name in names if matches(name) is not None]


def _first(names: list[str]) -> tuple[list[str], list[str]]:
    """Returns the names to match in one piece, and the rest."""
    count = characters = 0
    while count < min(len(names), MATCHED_NAMES_MAX) and characters < MATCHED_CHARACTERS_MAX:
        characters += len(names[count])
        count += 1
    return names[:count], names[count:]


def pattern_of(text: str | None) -> Matches | None:
    """Returns a function that matches an id, or None if every id matches. RE2 takes time linear in the length of the id
    for any pattern; the size of its program and its memory are bounded.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION.
    """
    if not text:
        return None
    if len(text) > PATTERN_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, "the pattern is too long")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    try:
        pattern = re2.compile(text, options)
    except re2.error as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error
    matches: Matches = pattern.fullmatch
    return matches


def _passes(request: ListTransactionsRequest, now_ms: int, transaction: Transaction) -> bool:
    """Returns whether a transaction passes all filters except the pattern."""
    if request.state_filters and transaction.state.shown not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    # An id that never began a transaction has `started_ms` -1, and therefore the maximum age, as in Kafka.
    age_ms = now_ms - transaction.started_ms
    return request.duration_filter < 0 or age_ms > request.duration_filter
