"""Opens the logs that a request names before it is handled, a few at a time: a thousand at once would hold the loop for
a second.

A partition's log is opened when first asked for, which takes 0.1 to 2 ms (a listing, some files, those of a new log
made). After a crash it is also checked above its recovery point, however much that is, and where files beside the
batches are missing they are made anew: in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.partition import Partition
from trimaran.broker.partitions.registry import Partitions
from trimaran.node.runtime.steps import pieces
from trimaran.node.runtime.turns import piece_by_piece
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import DeferredResponse
from trimaran.wire.transport.scheduling.effects import Blocking, Handling
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Logs opened, or written to for the first time, between two checkpoints.
OPENED_PER_TURN = 8
# Partitions looked for between two checkpoints: 3 ms of work if none is known.
KEYS_PER_TURN = 1000
# Partitions looked for between two boundaries of a request: 0.3 ms of work if none is known.
KEYS_PER_PIECE = 100
NOBODY = -1

R = TypeVar("R", bound=Message)


def unopened(
    partitions: Partitions,
    keys: Iterable[TopicPartition | TopicIdPartition],
    *,
    for_writing: bool = False,
    follower_id: int = NOBODY,
) -> list[Partition]:
    """Those that are led here and not begun; with `for_writing` also those that nothing was appended to yet, without
    those that a follower need not have opened.
    """
    found = []
    for topic, index in keys:
        names = (topic, NIL_UUID) if isinstance(topic, str) else ("", topic)
        _, held = partitions.named(*names)
        found.append(held.get(index))
    return not_begun(found, for_writing=for_writing, follower_id=follower_id)


def not_begun(
    partitions: Iterable[Partition | None], *, for_writing: bool = False, follower_id: int = NOBODY
) -> list[Partition]:
    """As `unopened`, of partitions that were found already; None means that the replica is not on this broker."""
    found = []
    for partition in partitions:
        if partition is None or partition.deleted:
            continue
        leader = partition.leader_or_none
        if leader is not None and not (for_writing and not leader.log.knows_producers):
            continue
        if partition.leads and not partition.is_untouched_for(follower_id):
            found.append(partition)
    return found


async def unopened_of_many(
    partitions: Partitions,
    keys: Sequence[TopicPartition | TopicIdPartition],
    *,
    for_writing: bool = False,
    follower_id: int = NOBODY,
) -> list[Partition]:
    """As `unopened`, some keys at a time."""
    found: list[Partition] = []

    def look_at(some: Sequence[TopicPartition | TopicIdPartition]) -> None:
        found.extend(unopened(partitions, some, for_writing=for_writing, follower_id=follower_id))

    await piece_by_piece(keys, KEYS_PER_TURN, look_at)
    return found


def takes_one_turn(found: Sequence[Partition]) -> bool:
    return len(found) <= OPENED_PER_TURN and not any(one.must_check for one in found)


async def open_leaders(found: Sequence[Partition]) -> None:
    """Begins their leader epochs. A failure is left to the request, which meets it again."""
    for count, partition in enumerate(found, 1):
        try:
            if partition.must_check:
                await partition.check()
            partition.open_leader()
        except KafkaError:
            continue
        if count % OPENED_PER_TURN == 0:
            await yield_to_loop()


def opened_leader(partition: Partition) -> Handling[PartitionLeader]:
    """Returns the leader of `partition`, whose log is opened and knows its producers. Raises as `open_leader`."""
    if partition.leads and not partition.deleted and partition.must_check:
        with suppress(KafkaError):  # `open_leader` says what is wrong
            yield Blocking(partition.check)
    return partition.open_leader()


def opening(
    partitions: Partitions,
    keys: Sequence[TopicPartition | TopicIdPartition],
    *,
    for_writing: bool = False,
    follower_id: int = NOBODY,
) -> Handling[None]:
    """Opens the logs of the partitions called `keys` that this broker leads, before a handler reads from them. A log
    that cannot be opened is left: the request meets the error again.
    """
    found: list[Partition] = []
    for some in pieces(keys, KEYS_PER_PIECE):
        found += unopened(partitions, some, for_writing=for_writing, follower_id=follower_id)
        if len(some) == KEYS_PER_PIECE:
            yield None
    for partition in found:
        try:
            yield from opened_leader(partition)
        except KafkaError:
            continue
        if len(found) > 1:
            yield None


def opened_first(
    partitions: Partitions,
    keys: Iterable[TopicPartition | TopicIdPartition],
    answer: Callable[[], R | DeferredResponse[R]],
    follower_id: int = NOBODY,
    *,
    needs_producers: bool = False,
) -> R | DeferredResponse[R]:
    """What `answer` gives, which reads from the partitions called `keys`: at once unless there are many logs to be
    opened before, or, if it `needs_producers`, much to be read to know them.
    """
    found = unopened(partitions, keys, for_writing=needs_producers, follower_id=follower_id)
    if not found or takes_one_turn(found):
        return answer()

    async def finish() -> R:
        await open_leaders(found)
        response = answer()
        return await response.finish() if isinstance(response, DeferredResponse) else response

    return DeferredResponse(finish)
