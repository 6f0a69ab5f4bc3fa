"""The offset at which a share group begins to read a partition in which it has no position (KIP-932, KIP-1106)."""

from __future__ import annotations

from typing import Any, TypeVar

import trio

from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.partitions.lookups import resolve_timestamp
from trimaran.broker.sharing.settings import EARLIEST, LATEST, duration_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.compute_thread import run_apart
from trimaran.wire.transport.scheduling.effects import INLINE_COST_MAX, Compute, Handling

T = TypeVar("T")


async def offset_to_begin(leader: PartitionLeader, reset: str, now_ms: int) -> Offset:
    """Returns the offset for `share.auto.offset.reset`; a duration beyond the newest record means the end.

    Raises:
        KafkaError: OFFSET_NOT_AVAILABLE while a new leader does not know the end; NOT_LEADER_OR_FOLLOWER.
    """
    if reset == EARLIEST:
        return leader.log.log_start_offset
    if not leader.knows_committed:
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE)
    if reset == LATEST:
        return leader.committed_end
    wanted = max(0, now_ms - duration_ms(reset))
    found = await carried_out(resolve_timestamp(leader.log.look_up_timestamp(wanted), leader))
    return leader.committed_end if found is None else min(found.offset, leader.committed_end)


async def carried_out(steps: Handling[T]) -> T:
    """Returns the result of steps that compute, outside of a request."""
    step, given = steps.send, None
    while True:
        try:
            effect = step(given)
        except StopIteration as end:
            found: T = end.value
            return found
        step, given = steps.send, None
        if isinstance(effect, Compute):
            step, given = await _computed(steps, effect)
        else:
            await trio.lowlevel.checkpoint()


async def _computed(steps: Handling[Any], effect: Compute) -> tuple[Any, Any]:
    try:
        if effect.cost_bytes <= INLINE_COST_MAX:
            return steps.send, effect.call()
        return steps.send, await run_apart(effect.call)
    except Exception as error:  # noqa: BLE001 - it is for the steps
        return steps.throw, error
