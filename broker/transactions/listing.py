"""What is told of transactions: one by its id, and all that match a filter (KIP-664, KIP-994, KIP-1152).

Source: `TransactionCoordinator.handleDescribeTransactions`, `TransactionStateManager.listTransactionStates` of Kafka.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial

import re2

from trimaran.broker.coordination.shard_epoch import ShardState
from trimaran.broker.transactions.coordinator import TransactionCoordinator
from trimaran.broker.transactions.records import partitions_by_topic
from trimaran.broker.transactions.transaction import Transaction, TransactionState
from trimaran.node.runtime.steps import pieces
from trimaran.node.runtime.threads import run_computing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import describe_transactions as described
from trimaran.wire.messages import list_transactions as listed
from trimaran.wire.messages.list_transactions import ListTransactionsRequest

# Looked at between two checkpoints: 2 ms of work.
IDS_PER_TURN = 1_000
# Matched by a pattern in one go of the thread.
MATCHED_NAMES_MAX = 100
MATCHED_CHARACTERS_MAX = 10_000
# Of a pattern: ids are no longer than what a producer may be called.
PATTERN_LENGTH_MAX = 1_000
PATTERN_MEMORY_BYTES_MAX = 1 << 20
# Dead and PrepareEpochFence are no states here, but names of states all the same.
STATE_NAMES = frozenset(state.shown for state in TransactionState) | {"Dead", "PrepareEpochFence"}


def describe(
    coordinator: TransactionCoordinator, transactional_id: str
) -> described.TransactionState:
    """With TRANSACTIONAL_ID_NOT_FOUND, or why it is not known here."""
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
    """Nothing but why."""
    return described.TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


async def list_transactions(
    coordinator: TransactionCoordinator, request: ListTransactionsRequest, now_ms: int, whom: int
) -> AsyncIterator[list[listed.TransactionState]]:
    """Of all shards those that match, in pieces of `IDS_PER_TURN` that were looked at, for the connection of the id
    `whom`.

    Raises:
        KafkaError: COORDINATOR_LOAD_IN_PROGRESS: some are not known yet; INVALID_REGULAR_EXPRESSION.
    """
    pattern = _pattern(request.transactional_id_pattern)
    passes = partial(_passes, request, now_ms)
    for epoch in list(coordinator.runtime.epochs):
        if epoch.state is ShardState.CLOSED:
            continue
        for looked_at in pieces(epoch.active().transactions.items(), IDS_PER_TURN):
            some = {name: transaction for name, transaction in looked_at if passes(transaction)}
            names = list(some) if pattern is None else await _matching(pattern, list(some), whom)
            yield [
                listed.TransactionState(
                    transactional_id=name,
                    producer_id=some[name].producer_id,
                    transaction_state=some[name].state.shown,
                )
                for name in names
            ]


async def _matching(matches: Callable[[str], object], names: list[str], whom: int) -> list[str]:
    """Those that match, in a thread, some at a time: a pattern may take two milliseconds for a name, and 50 for the
    longest there is.
    """
    found: list[str] = []
    while names:
        some, names = _first(names)
        found += await run_computing(_filter, matches, some, whom=whom)
    return found


def _filter(matches: Callable[[str], object], names: list[str]) -> list[str]:
    return [name for name in names if matches(name) is not None]


def _first(names: list[str]) -> tuple[list[str], list[str]]:
    """As many as are matched at once, and the others."""
    count = characters = 0
    while count < min(len(names), MATCHED_NAMES_MAX) and characters < MATCHED_CHARACTERS_MAX:
        characters += len(names[count])
        count += 1
    return names[:count], names[count:]


def _pattern(text: str | None) -> Callable[[str], object] | None:
    """RE2 takes time linear in the id, whatever the pattern; its program is bounded by the length, and its memory."""
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
    matches: Callable[[str], object] = pattern.fullmatch
    return matches


def _passes(request: ListTransactionsRequest, now_ms: int, transaction: Transaction) -> bool:
    """Whether it passes the filters but the pattern."""
    if request.state_filters and transaction.state.shown not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    # Of an id that never began one `started_ms` is -1, so its age is that of the epoch, as in Kafka.
    age_ms = now_ms - transaction.started_ms
    return request.duration_filter < 0 or age_ms > request.duration_filter
