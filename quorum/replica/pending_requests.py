"""Requests of other nodes that wait for the core's answer, by token."""

from __future__ import annotations

import trio

from trimaran.quorum.raft import messages as core
from trimaran.wire.errors import ErrorCode, KafkaError


class _Waiter:
    __slots__ = ("done", "response")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.response: core.AnyResponse | None = None


class PendingRequests:
    """As many as there are connections, each of which has few under way."""

    __slots__ = ("_closed", "_next_token", "_waiters")

    def __init__(self) -> None:
        self._waiters: dict[int, _Waiter] = {}
        self._next_token = 0
        self._closed = False

    def open(self) -> tuple[int, PendingResponse]:
        """A token for the core, and where its answer will be. Raises KafkaError BROKER_NOT_AVAILABLE once closed."""
        if self._closed:
            raise _stopped()
        self._next_token += 1
        waiter = self._waiters[self._next_token] = _Waiter()
        return self._next_token, PendingResponse(self._waiters, self._next_token, waiter)

    def complete(self, token: int, response: core.AnyResponse) -> None:
        """Unknown tokens are of those who do not wait any more."""
        waiter = self._waiters.pop(token, None)
        if waiter is not None:
            waiter.response = response
            waiter.done.set()

    def close(self) -> None:
        """Nothing will be answered any more: who waits, and who asks from now on, is told."""
        self._closed = True
        for waiter in self._waiters.values():
            waiter.done.set()


class PendingResponse:
    """Awaits the answer to one request; forgets it when nobody waits any more."""

    __slots__ = ("_token", "_waiter", "_waiters")

    def __init__(self, waiters: dict[int, _Waiter], token: int, waiter: _Waiter) -> None:
        self._waiters = waiters
        self._token = token
        self._waiter = waiter

    @property
    def ready(self) -> bool:
        return self._waiter.done.is_set()

    async def __call__(self) -> core.AnyResponse:
        try:
            await self._waiter.done.wait()
        finally:
            self._waiters.pop(self._token, None)
        if self._waiter.response is None:
            raise _stopped()
        return self._waiter.response


def _stopped() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the node has stopped")
