"""Answers that wait for watermarks: what was begun in several partitions is done when each of theirs has reached its
offset.

A read that follows an answer to acks=1 waits for the flush that is under way: so it finds the record, and what is
visible is on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

import trio

from trimaran.broker.partitions.registry import Partitions
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.turns import piece_by_piece
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

# A flush takes milliseconds, a second on a disk that is hard pressed. Clients wait for an answer for 30 s.
FLUSH_SECONDS_MAX = 10.0
# Partitions between two checkpoints: 5 ms of work.
LOOKED_AT_PER_TURN = 1_000


class PartitionResult(Protocol):
    """A partition's part of an answer."""

    error_code: int


class WatermarkWait(NamedTuple):
    """`result` holds as it is once `watermark` has reached `offset`."""

    watermark: Watermark
    offset: int
    result: PartitionResult


async def wait_for_all(waits: Sequence[WatermarkWait], seconds: float) -> None:
    """Returns when all have reached theirs, or after `seconds`; what came to nothing is told in its result.

    NOT_LEADER_OR_FOLLOWER: the epoch ended; REQUEST_TIMED_OUT: it may yet happen. No checkpoint where all have.
    """
    if all(one.watermark.reached(one.offset) for one in waits):
        return
    with trio.move_on_after(seconds):
        for one in waits:
            try:
                await one.watermark.wait_reached(one.offset)
            except NotLeaderError:
                one.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    for one in waits:
        if not one.result.error_code and not one.watermark.reached(one.offset):
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT


class PendingFlush(NamedTuple):
    """The flush that takes a partition's watermark to `offset`: nothing else keeps it from there."""

    key: TopicPartition
    watermark: Watermark
    offset: int


def pending_flushes(partitions: Partitions, keys: Iterable[TopicPartition]) -> list[PendingFlush]:
    """Of the partitions called `keys` that are led here and opened, those in which more is written than is on this
    broker's disk.

    Not what followers have yet to fetch: their watermark lags in Kafka, too.
    """
    found = []
    for key in keys:
        try:
            leader = partitions.leader_of(*key)
        except KafkaError:
            continue  # whoever asks for it is told
        offset = leader.watermark_when_flushed
        if not leader.high_watermark.reached(offset):
            found.append(PendingFlush(key, leader.high_watermark, offset))
    return found


async def pending_flushes_in_turns(
    partitions: Partitions, keys: Sequence[TopicPartition]
) -> list[PendingFlush]:
    """As `pending_flushes`, some keys at a time."""
    found: list[PendingFlush] = []
    await piece_by_piece(
        keys, LOOKED_AT_PER_TURN, lambda some: found.extend(pending_flushes(partitions, some))
    )
    return found


async def wait_for_flushes(
    flushes: Collection[PendingFlush], seconds: float = FLUSH_SECONDS_MAX
) -> set[TopicPartition]:
    """Returns when all are done or their epochs ended, or after `seconds`: then with those that are late."""
    with trio.move_on_after(seconds):
        for one in flushes:
            try:
                await one.watermark.wait_reached(one.offset)
            except NotLeaderError:
                continue  # whoever asks for the leader is told
    return {
        one.key
        for one in flushes
        if not (one.watermark.reached(one.offset) or one.watermark.closed)
    }
