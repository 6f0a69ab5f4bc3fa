"""Waits for watermarks, except those of Produce, which are in `broker/producing/await_replicas.py`.

A request that has begun work in several partitions is complete when the watermark of each has reached its offset.

A read that follows a response to acks=1 waits for the current flush, so that it finds the record, and all visible
records are on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

import trio

from trimaran.broker.partitions.registry import Partitions
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.transport.scheduling.effects import Handling

# The maximum wait for a flush, which takes milliseconds, or a second on a busy disk. Clients wait 30 s for a response.
FLUSH_SECONDS_MAX = 10.0


class PartitionResult(Protocol):
    """A partition's part of a response."""

    error_code: int


class WatermarkWait(NamedTuple):
    """A wait of one partition: `result` is final once `watermark` has reached `offset`."""

    watermark: Watermark
    offset: Offset
    result: PartitionResult


async def wait_for_all(waits: Sequence[WatermarkWait], seconds: float) -> None:
    """Waits until all watermarks have reached their offsets, at most for `seconds`; sets the errors in the results of
    the rest.

    NOT_LEADER_OR_FOLLOWER: the epoch ended; REQUEST_TIMED_OUT: the offset may still be reached. This is not a
    checkpoint if all offsets have already been reached.
    """
    if all(wait.watermark.reached(wait.offset) for wait in waits):
        return
    deadline = trio.current_time() + seconds
    for wait in waits:
        try:
            await wait.watermark.wait_reached(wait.offset, deadline)
        except NotLeaderError:
            wait.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            if not wait.watermark.reached(wait.offset):
                wait.result.error_code = ErrorCode.REQUEST_TIMED_OUT


class PendingFlush(NamedTuple):
    """A flush that will advance the watermark of the partition to `offset`; the watermark waits for nothing else."""

    key: TopicPartition
    watermark: Watermark
    offset: Offset


def pending_flushes(
    partitions: Partitions, keys: Iterable[TopicPartition]
) -> Handling[list[PendingFlush]]:
    """Returns the pending flushes of those partitions in `keys` that this broker leads and has opened.

    Does not wait for followers to fetch: their watermark lags in Kafka, too.
    """
    found = []
    for key in keys:
        yield None
        try:
            leader = partitions.leader_of(key)
        except KafkaError:
            continue  # a later request for the leader raises it again
        offset = leader.watermark_when_flushed
        if not leader.high_watermark.reached(offset):
            found.append(PendingFlush(key, leader.high_watermark, offset))
    return found


async def wait_for_flushes(
    flushes: Collection[PendingFlush], seconds: float = FLUSH_SECONDS_MAX
) -> set[TopicPartition]:
    """Waits until all flushes are done or their epochs have ended, at most for `seconds`; returns the late
    partitions.
    """
    deadline = trio.current_time() + seconds
    late = set()
    for flush in flushes:
        with suppress(NotLeaderError):  # a later request for the leader raises it again
            await flush.watermark.wait_reached(flush.offset, deadline)
            if not flush.watermark.reached(flush.offset):
                late.add(flush.key)
    return late
