"""A response that is available later: first it is decided, then the state of the decision is committed.

The runtime has only this type for it; handlers wait for it by `settled`. A pending response has no task of its own.
Tasks that wait for it are outside the epoch, so the end of the epoch reaches them as an error, never as a cancellation.
Kafka's equivalent is a `CompletableFuture`, with a `DeferredEventQueue` for the commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset
from trimaran.wire.transport.scheduling.deadlines import PendingCall
from trimaran.wire.transport.scheduling.effects import Handling, Wait
from trimaran.wire.transport.scheduling.events import yield_to_loop

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Progress:
    """The offsets up to which the state of one epoch has been replayed and committed.

    Args:
        committed: all records below its offset are committed; closed when the epoch ends.
        end_offset: all records below it are replayed; never below the committed offset.
        ended: the error code, with its message, for requests of an ended epoch.
        commit_seconds: after this time without a commit, a response fails with `late`.
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
    """A response that may be sent when it is decided and, with a `progress`, when all records replayed by then are
    committed.
    """

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
        self._event: trio.Event | None = None  # created by a waiting task, which is rare
        self._end_offset = Offset(0)  # with a progress, set when the response is decided
        self._deadline = inf

    def complete(self, response: T) -> None:
        """Decides the response; only the first call has an effect."""
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
        """Decides on an error: `wait` raises `error`."""
        if self.is_decided:
            return
        self.is_decided = True
        self._error, self._progress = error, None  # an error does not wait for a commit
        if self._event is not None:
            self._event.set()

    @property
    def response(self) -> T:
        """Returns the decided response, which may be sent only when `ready`. Raises the error instead, once."""
        assert self.is_decided
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # The traceback refers to this frame, which would keep the request until the next collection.
                del error
        return self._response  # type: ignore[return-value]  # T may be None

    def ready(self) -> bool:
        """Returns whether `wait` would return or raise without waiting."""
        if not self.is_decided:
            return False
        progress = self._progress
        return progress is None or progress.committed.offset >= self._end_offset

    def when_ready(self, call: Callable[[], object]) -> PendingCall | None:
        """Calls `call` once `wait` would no longer wait; None if undecided: then only `wait` is notified."""
        if not self.is_decided or self._progress is None:
            return None
        return self._progress.committed.when_reached(self._end_offset, call, self._deadline)

    async def decided(self) -> T:
        """Returns the response when it is decided, committed or not; a checkpoint in each case.

        Raises:
            KafkaError: `Progress.ended` if the epoch ended first, and nothing was written; or the error of the
                decision.
        """
        if self.is_decided:
            await yield_to_loop()
        else:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        return self.response

    async def wait(self) -> T:
        """Returns the response when it may be sent.

        Raises:
            KafkaError: `Progress.ended` if the epoch ended first, `Progress.late` if the commit took too long; in both
                cases the records may survive or not. Or the error of the decision.
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
    """Returns the response when it may be sent; a handler uses it by `yield from` after all its effects.

    Raises:
        KafkaError: see `PendingResponse.wait`.
    """
    if pending.ready():
        return pending.response
    response: T = yield Wait(pending.wait, pending.ready, when_ready=pending.when_ready)
    return response
