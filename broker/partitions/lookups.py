"""Look-ups in logs that take longer than a turn of the loop: headers are read some at a time, and records in a thread.

What a batch expands to is its producer's choice, and how many headers lie between two entries of a time index, too.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

import outcome

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.replica import HEADERS_PER_TURN
from trimaran.log.partitions.timestamps import Candidate, TimestampLookup, TimestampOffset
from trimaran.log.steps import Steps
from trimaran.node.runtime.threads import HEAVY_SECONDS, run_computing
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.events import yield_to_loop

T = TypeVar("T")


async def resolve_timestamp(
    lookup: TimestampLookup, leader: PartitionLeader, whom: int
) -> TimestampOffset | None:
    """What the look-up in the log of `leader` finds, for the connection of the id `whom`.

    Raises:
        KafkaError: NOT_LEADER_OR_FOLLOWER, the epoch has ended, and perhaps the log is closed; as `Candidate.find`.
    """
    sent: outcome.Outcome[TimestampOffset | None] = outcome.Value(None)
    done = 0
    while True:
        _check(leader)
        try:
            step = sent.send(lookup)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        sent = outcome.Value(None)
        if not isinstance(step, Candidate):
            done += step
        elif step.is_small:
            sent = outcome.capture(step.find)
        else:
            find = partial(run_computing, step.find, whom=whom, seconds=HEAVY_SECONDS)
            sent = await outcome.acapture(find)
        if done >= HEADERS_PER_TURN:
            done = 0
            await yield_to_loop()


async def in_steps(steps: Steps[T], leader: PartitionLeader) -> T:
    """As `resolve_timestamp`, of what reads headers alone."""
    done = 0
    while True:
        _check(leader)
        try:
            done += next(steps)
        except StopIteration as end:
            found: T = end.value
            return found
        if done >= HEADERS_PER_TURN:
            done = 0
            await yield_to_loop()


def _check(leader: PartitionLeader) -> None:
    if leader.ended:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
