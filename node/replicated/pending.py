"""Pending responses: what a coordinator gives a handler, which makes a response of the protocol of it.

One is completed by a rule of the shard (`CompletableResponse`), or by the commit of what it tells
(`CommittedResponse`). In Kafka both are a `CompletableFuture`. Nobody's task belongs to one: whoever waits stands
outside of the shard's epoch, and is told of its end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import DeferredResponse

T = TypeVar("T")
R = TypeVar("R", bound=Message)


class PendingResponse(ABC, Generic[T]):
    """A response that will come."""

    __slots__ = ()

    @property
    @abstractmethod
    def response(self) -> T:
        """What it says, or would say; to be told only when `ready`."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether `wait` would return without waiting."""

    @abstractmethod
    async def wait(self) -> T:
        """The response, when it may leave.

        Raises:
            KafkaError: NOT_COORDINATOR: the shard's epoch ended first; COORDINATOR_NOT_AVAILABLE: not committed in
                time. Whether records survive is unknown in both cases.
        """


class CompletableResponse(PendingResponse[T]):
    """Comes when a rule of the shard has a response, be it a refusal; the token of what waits in the shard."""

    __slots__ = ("_completed", "_response")

    def __init__(self) -> None:
        self._response: T | None = None
        self._completed: trio.Event | None = None  # made by whoever waits: most never do

    def complete(self, response: T) -> None:
        """Gives the response; only the first counts."""
        if self._response is None:
            self._response = response
            if self._completed is not None:
                self._completed.set()

    @property
    def response(self) -> T:
        assert self._response is not None
        return self._response

    def ready(self) -> bool:
        return self._response is not None

    async def wait(self) -> T:
        if self._response is None:
            if self._completed is None:
                self._completed = trio.Event()
            await self._completed.wait()
        return self.response


class CommittedResponse(PendingResponse[T]):
    """May leave once everything below `end_offset` is committed; nobody waits for that beyond `deadline`."""

    __slots__ = ("_deadline", "_end_offset", "_high_watermark", "_response")

    def __init__(
        self, response: T, end_offset: int, high_watermark: Watermark, deadline: float
    ) -> None:
        """`deadline` in monotonic seconds."""
        self._response = response
        self._end_offset = end_offset
        self._high_watermark = high_watermark
        self._deadline = deadline

    @property
    def response(self) -> T:
        return self._response

    def ready(self) -> bool:
        return self._high_watermark.reached(self._end_offset)

    async def wait(self) -> T:
        if self.ready():
            return self._response
        with trio.move_on_at(self._deadline):
            try:
                await self._high_watermark.wait_reached(self._end_offset)
            except NotLeaderError:
                raise KafkaError(ErrorCode.NOT_COORDINATOR) from None
            return self._response
        if self.ready():
            return self._response
        ended = self._high_watermark.closed
        raise KafkaError(
            ErrorCode.NOT_COORDINATOR if ended else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )


def respond(
    pending: PendingResponse[T],
    to_response: Callable[[T], R],
    refuse: Callable[[ErrorCode], R],
) -> R | DeferredResponse[R]:
    """What a handler returns: the response if it is there, else one that the connection waits for."""
    if pending.ready():
        return to_response(pending.response)

    async def finish() -> R:
        try:
            response = await pending.wait()
        except KafkaError as error:
            return refuse(error.code)
        return to_response(response)

    return DeferredResponse(finish, ready=pending.ready)
