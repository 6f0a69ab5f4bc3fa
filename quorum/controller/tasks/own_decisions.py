"""Decisions of the active controller's own tasks: each takes its turn in the queue of all decisions, and many
partitions are decided on in batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps, pieces
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.partitions.broker_changes import in_steps
from trimaran.quorum.controller.partitions.index import PARTITIONS_PER_STEP, PartitionIndex
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

# The pause before a write is retried, if the log was full or its followers were too far behind.
WRITE_AGAIN_SECONDS = 1.0

T = TypeVar("T")
Which = Callable[[PartitionIndex], Iterable[TopicIdPartition]]
Decide = Callable[[ControllerState, Sequence[TopicIdPartition]], Sequence[Message]]


async def perform(active: ActiveController, steps: Steps[T]) -> T:
    """Makes one decision of a task of the epoch and returns its result, which may not be committed yet."""
    try:
        return await active.submit(steps).decided()
    except KafkaError:
        if active.committed.closed:
            await trio.sleep_forever()  # the end of the epoch cancels this task
        raise


async def process_partitions(active: ActiveController, which: Which, decide: Decide) -> int:
    """Decides on the present partitions in batches, each in its own turn; returns the number of changes."""

    def change(batch: Sequence[TopicIdPartition]) -> Steps[int | None]:
        """Returns the number of changes; None if the log refused them."""
        records = yield from in_steps(batch, partial(decide, active.state))
        written = yield from try_to_write(active, Result(records, None, atomic=False))
        return len(records) if written else None

    changed = 0
    keys = await perform(active, list_partitions(active, which))
    for batch in pieces(keys, PARTITIONS_PER_STEP):
        count = await perform(active, change(batch))
        while count is None:
            await trio.sleep(WRITE_AGAIN_SECONDS)
            count = await perform(active, change(batch))
        changed += count
    return changed


def list_partitions(active: ActiveController, which: Which) -> Steps[list[TopicIdPartition]]:
    """Returns the present keys; the index is consistent only in a turn of its own."""
    yield 1
    return list(which(active.state.index))


def try_to_write(active: ActiveController, result: Result[Message, None]) -> Steps[bool]:
    """Writes changes that the next round would make again; returns False if the log refused them."""
    try:
        yield from active.write(result)
    except KafkaError as error:
        log.debug("not written: %s", error)
        return False
    return True
