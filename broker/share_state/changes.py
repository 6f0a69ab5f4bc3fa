"""Requests to share coordinators for many share partitions.

Source: `persisterInitialize` and `deleteShareGroup` of Kafka 4.4's `GroupCoordinatorService`.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import NamedTuple, TypeVar

import trio

from trimaran.broker import events
from trimaran.broker.share_state.states import ShareStates, ShareSummary
from trimaran.wire.errors import ErrorCode, KafkaError, KeptError
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    Offset,
    SharePartitionKey,
    StateEpoch,
    TopicIdPartition,
)

# The number of share partitions of one change for which requests are under way at a time.
STATES_AT_A_TIME = 100

Outcomes = dict[TopicIdPartition, KeptError | None]
"""The error for each partition, or None."""

PartitionsByTopic = Mapping[bytes, AbstractSet[int]]


class InitializedStates(NamedTuple):
    """The partitions without an error, and those with one, by topic id; `is_fenced` if an epoch was too low."""

    done: PartitionsByTopic
    failed: PartitionsByTopic
    is_fenced: bool = False


# The number of partitions that are grouped by topic in one step, which takes about a millisecond.
GROUPED_AT_A_TIME = 1_000

log = logging.getLogger(__name__)

T = TypeVar("T")


async def initialize_all(
    states: ShareStates,
    group_id: str,
    state_epoch: StateEpoch,
    offsets: Mapping[TopicIdPartition, Offset | None],
) -> Outcomes:
    """Stores the initial states of share partitions with their start offsets, as `ShareStates.initialize` does."""

    async def store(partition: TopicIdPartition) -> None:
        key = SharePartitionKey(group_id, *partition)
        await states.initialize(key, state_epoch, offsets[partition])

    return await _each(group_id, offsets, store)


async def by_topic(outcomes: Outcomes) -> InitializedStates:
    """Groups the outcomes by topic, done and failed."""
    done, failed = defaultdict[bytes, set[int]](set), defaultdict[bytes, set[int]](set)
    is_fenced = False
    for number, ((topic_id, partition), error) in enumerate(outcomes.items(), 1):
        (done if error is None else failed)[topic_id].add(partition)
        is_fenced = is_fenced or (error is not None and error.code is ErrorCode.FENCED_STATE_EPOCH)
        if number % GROUPED_AT_A_TIME == 0:
            await trio.lowlevel.checkpoint()
    return InitializedStates(done, failed, is_fenced)


async def delete_all(
    states: ShareStates, group_id: str, partitions: Iterable[TopicIdPartition]
) -> Outcomes:
    """Deletes the states of share partitions."""

    async def forget(partition: TopicIdPartition) -> None:
        await states.delete(SharePartitionKey(group_id, *partition))

    return await _each(group_id, partitions, forget)


async def delete_of_groups(
    states: ShareStates, partitions: Mapping[str, Iterable[TopicIdPartition]]
) -> dict[str, KeptError]:
    """Deletes the states of share partitions of many groups together; returns an error for each group of which a state
    may be left.
    """
    errors = defaultdict[str, list[KeptError]](list)

    async def forget(key: SharePartitionKey) -> None:
        try:
            await states.delete(key)
        except KafkaError as error:
            errors[key.group_id].append(KeptError.of(error))

    await _all(
        (
            SharePartitionKey(group_id, *partition)
            for group_id, mine in partitions.items()
            for partition in mine
        ),
        forget,
    )
    for group_id, failed in errors.items():
        _log_failures(group_id, failed)
    return {group_id: failed[0] for group_id, failed in errors.items()}


async def summaries(
    states: ShareStates, group_id: str, partitions: Iterable[TopicIdPartition]
) -> dict[TopicIdPartition, ShareSummary | KeptError]:
    """Returns the positions of a group in share partitions."""

    async def read(partition: TopicIdPartition) -> ShareSummary:
        return await states.summary(SharePartitionKey(group_id, *partition), NO_LEADER_EPOCH)

    return await _attempts(partitions, read)


async def _each(
    group_id: str,
    partitions: Iterable[TopicIdPartition],
    act: Callable[[TopicIdPartition], Awaitable[None]],
) -> Outcomes:
    found = await _attempts(partitions, act)
    failed = [error for error in found.values() if error is not None]
    if failed:
        _log_failures(group_id, failed)
    return found


def _log_failures(group_id: str, failed: Sequence[KeptError]) -> None:
    events.SHARE_STATES_NOT_STORED.log(
        log, group=group_id, count=len(failed), error=failed[0].code.name
    )


async def _attempts(
    partitions: Iterable[TopicIdPartition], act: Callable[[TopicIdPartition], Awaitable[T]]
) -> dict[TopicIdPartition, T | KeptError]:
    """Returns the result of `act` for each partition, or the error that it has raised."""
    found: dict[TopicIdPartition, T | KeptError] = {}

    async def attempt(partition: TopicIdPartition) -> None:
        try:
            found[partition] = await act(partition)
        except KafkaError as error:
            found[partition] = KeptError.of(error)

    await _all(partitions, attempt)
    return found


async def _all(items: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Runs `act` for each item, for `STATES_AT_A_TIME` items at a time."""
    left = iter(items)
    while some := list(islice(left, STATES_AT_A_TIME)):
        async with trio.open_nursery() as nursery:
            for item in some:
                nursery.start_soon(act, item)
