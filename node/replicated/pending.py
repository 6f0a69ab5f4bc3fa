"""A response that comes later: first it is decided, then the state that it was decided on is committed.

The runtime has this one type for it; handlers wait for it by `settled`. No task belongs to a pending response. Tasks
that wait for one are outside of the epoch, so its end reaches them as an error, never as a cancellation. In Kafka it is
a `CompletableFuture`, with `DeferredEventQueue` for the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.effects import Handling, Wait
from trimaran.wire.transport.scheduling.events import yield_to_loop

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Progress:
    """How far the state of one epoch has been replayed and committed.

    Args:
        committed: everything below its offset is committed; closed when the epoch ends.
        end_offset: everything below is replayed; at or above what is committed.
        ended: the code for clients whose epoch has ended, and its message.
        commit_seconds: a response that is not committed by then is refused with `late`.
    """

    committed: Watermark
    end_offset: Offset
    ended: ErrorCode
    message: str = ""
    commit_seconds: float = inf
    late: ErrorCode = ErrorCode.REQUEST_TIMED_OUT

    def ended_error(self) -> KafkaError:
        """Returns the error of an epoch that has ended."""
        return KafkaError(self.ended, self.message)


class PendingResponse(Generic[T]):
    """May leave when it is decided and, with a `progress`, when all that was replayed by then is committed."""

    __slots__ = (
        "__weakref__",
        "_deadline",
        "_end_offset",
        "_error",
        "_event",
        "_progress",
        "_response",
        "is_decided",
    )

    def __init__(self, progress: Progress | None = None) -> None:
        self.is_decided = False
        self._progress = progress
        self._response: T | None = None
        self._error: Exception | None = None
        self._event: trio.Event | None = None  # made by a task that waits: most never do
        self._end_offset = Offset(0)  # with a progress it is set when the response is decided
        self._deadline = inf

    def complete(self, response: T) -> None:
        """Decides the response; only the first one counts."""
        if self.is_decided:
            return
        self.is_decided = True
        self._response = response
        progress = self._progress
        if progress is not None:
            self._end_offset = progress.end_offset
            if progress.commit_seconds < inf and progress.committed.offset < self._end_offset:
                self._deadline = trio.current_time() + progress.commit_seconds
        if self._event is not None:
            self._event.set()

    def fail(self, error: Exception) -> None:
        """Decides that there is no response: `wait` raises `error`."""
        if self.is_decided:
            return
        self.is_decided = True
        self._error, self._progress = error, None  # an error waits for no commit
        if self._event is not None:
            self._event.set()

    @property
    def response(self) -> T:
        """The response that was decided, to be told only when `ready`. Raises the error instead, once."""
        assert self.is_decided
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del (
                    error
                )  # it refers to this frame, which would keep the request until the collector comes
        return self._response  # type: ignore[return-value]  # T may be None

    def ready(self) -> bool:
        """Returns True if `wait` would return or raise without waiting."""
        if not self.is_decided:
            return False
        progress = self._progress
        return progress is None or progress.committed.offset >= self._end_offset

    async def decided(self) -> T:
        """Returns the response as soon as it is decided, committed or not; a checkpoint in each case.

        Raises:
            KafkaError: `Progress.ended`, the epoch ended first; nothing was written. Also the error of the decision.
        """
        if self.is_decided:
            await yield_to_loop()
        else:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        return self.response

    async def wait(self) -> T:
        """Returns the response when it may leave.

        Raises:
            KafkaError: `Progress.ended`, the epoch ended first; `Progress.late`, not committed in time. Whether the
                records survive is unknown in both cases. Also the error of the decision.
        """
        response = self.response if self.is_decided else await self.decided()
        if self.ready():
            return response
        progress = self._progress
        assert progress is not None
        try:
            await progress.committed.wait_reached(self._end_offset, self._deadline)
        except NotLeaderError:
            raise progress.ended_error() from None
        if not self.ready():
            raise KafkaError(progress.late)
        return response


def settled(pending: PendingResponse[T]) -> Handling[T]:
    """Returns the response when it may leave; a handler uses it by `yield from` once all its effects are done.

    Raises:
        KafkaError: as `PendingResponse.wait`.
    """
    if pending.ready():
        return pending.response
    response: T = yield Wait(pending.wait, pending.ready)
    return response
