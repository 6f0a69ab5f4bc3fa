"""Turns of the active controller's own tasks: what they decide is made and written in the queue of all decisions, about
many partitions some at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.steps import Steps, pieces
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.index import PARTITIONS_PER_STEP, Key, PartitionIndex
from trimaran.quorum.controller.partitions import in_steps
from trimaran.quorum.controller.state import ControllerState
from trimaran.wire.errors import KafkaError
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

# After so long what could not be written is tried again; the log was full, or too far behind.
WRITE_AGAIN_SECONDS = 1.0

T = TypeVar("T")
Which = Callable[[PartitionIndex], Iterable[Key]]
Decide = Callable[[ControllerState, Sequence[Key]], Sequence[Message]]


async def perform(active: ActiveController, steps: Steps[T]) -> T:
    """A turn for a task of the epoch."""
    try:
        return await active.operations.submit_and_wait(steps)
    except NotLeaderError:
        await trio.sleep_forever()  # until we are cancelled: the epoch ends


async def process_partitions(active: ActiveController, which: Which, decide: Decide) -> int:
    """Decides on the partitions of now, so many in each turn; returns how many changed."""

    def change(some: Sequence[Key]) -> Steps[int | None]:
        """How many changed; None if it could not be written."""
        records = yield from in_steps(some, partial(decide, active.state))
        written = not records or (
            yield from try_to_write(active, Result(records, None, atomic=False))
        )
        return len(records) if written else None

    changed = 0
    keys = await perform(active, list_partitions(active, which))
    for some in pieces(keys, PARTITIONS_PER_STEP):
        count = await perform(active, change(some))
        while count is None:
            await trio.sleep(WRITE_AGAIN_SECONDS)
            count = await perform(active, change(some))
        changed += count
    return changed


def list_partitions(active: ActiveController, which: Which) -> Steps[list[Key]]:
    """The keys of now; the index is whole in a turn of one's own only."""
    yield 1
    return list(which(active.state.index))


def try_to_write(active: ActiveController, result: Result[Message, None]) -> Steps[bool]:
    """For what the next round does as well; the end of the epoch cancels the caller. False if nothing was written."""
    try:
        yield from active.write(result)
    except (KafkaError, NotLeaderError) as error:
        log.debug("not written: %s", error)
        return False
    return True
