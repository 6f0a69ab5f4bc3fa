"""From what the coordinator promises (`Parking`, `Deferred`) to what a handler answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import trio

from broker.groups.shard import Parking
from node.runtime.deferred import Deferred
from node.runtime.errors import NotLeaderError
from wire.errors import ErrorCode, KafkaError
from wire.schema import Message
from wire.transport.calls import DeferredResponse

T = TypeVar("T")
R = TypeVar("R", bound=Message)


def answer_parking(parking: Parking[T], spell: Callable[[T], R]) -> R | DeferredResponse[R]:
    """The response if it is there, else a parked one; `spell` fits it to the request's version."""
    if parking.response is not None:
        return spell(parking.response)

    async def finish() -> R:
        return spell(await parking.wait())

    return DeferredResponse(finish, ready=parking.ready)


def answer_deferred(
    deferred: Deferred[T],
    timeout_seconds: float,
    answer: Callable[[T], R],
    refuse: Callable[[ErrorCode], R],
) -> R | DeferredResponse[R]:
    """The response if its records are committed, else a parked one, for `timeout_seconds` from now."""
    if deferred.ready():
        return answer(deferred.response)
    deadline = trio.current_time() + timeout_seconds

    async def finish() -> R:
        try:
            return answer(await wait_committed(deferred, deadline))
        except KafkaError as error:
            return refuse(error.code)

    return DeferredResponse(finish, ready=deferred.ready)


async def wait_committed(deferred: Deferred[T], deadline: float) -> T:
    """The response, when it may leave.

    Raises:
        KafkaError: NOT_COORDINATOR: the reign ended first; COORDINATOR_NOT_AVAILABLE: not committed in time.
            Whether the records survive is unknown in both cases.
    """
    with trio.move_on_at(deadline):
        try:
            return await deferred.wait()
        except NotLeaderError:
            raise KafkaError(ErrorCode.NOT_COORDINATOR) from None
    raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
