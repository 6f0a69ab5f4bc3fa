"""Lookups in logs that may take long: a request yields between batch headers, and a thread reads records.

Producers determine the decompressed size of a batch, and the number of headers between two entries of a time index.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import outcome

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.log.partitions.timestamps import CandidateBatch, TimestampLookup, TimestampOffset
from trimaran.log.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.effects import INLINE_COST_MAX, Compute, Handling

T = TypeVar("T")


def pausing(steps: Steps[T]) -> Handling[T]:
    """Returns the result of `steps`, with a yield after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        yield None


def resolve_timestamp(
    lookup: TimestampLookup, leader: PartitionLeader
) -> Handling[TimestampOffset | None]:
    """Returns the result of a lookup in the log of `leader`.

    Raises:
        KafkaError: NOT_LEADER_OR_FOLLOWER if the epoch has ended and the log may be closed; the codes of
            `CandidateBatch.find`.
    """
    result: outcome.Outcome[TimestampOffset | None] = outcome.Value(None)
    while True:
        _check(leader)
        try:
            step = result.send(lookup)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        result = outcome.Value(None)
        if not isinstance(step, CandidateBatch):
            yield None
            continue
        cost = 0 if step.is_small else INLINE_COST_MAX + 1
        result = yield Compute(cost, partial(outcome.capture, step.find))


def in_steps(steps: Steps[T], leader: PartitionLeader) -> Handling[T]:
    """Resolves a timestamp as `resolve_timestamp` does, for steps that only read headers."""
    while True:
        _check(leader)
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        yield None


def _check(leader: PartitionLeader) -> None:
    if leader.ended:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
