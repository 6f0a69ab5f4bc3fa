"""Requests of other nodes that wait for the core's answer, by token."""

from __future__ import annotations

from weakref import WeakValueDictionary

from trimaran.node.replicated.pending import PendingResponse
from trimaran.quorum.raft import messages as core
from trimaran.wire.errors import ErrorCode, KafkaError


class PendingRequests:
    """As many as there are connections, each of which has few under way. A request is forgotten when no task holds its
    response any more.
    """

    __slots__ = ("_closed", "_next_token", "_pending")

    def __init__(self) -> None:
        self._pending = WeakValueDictionary[int, PendingResponse[core.AnyResponse]]()
        self._next_token = 0
        self._closed = False

    def open(self) -> tuple[int, PendingResponse[core.AnyResponse]]:
        """Returns a token for the core, and its response. Raises KafkaError BROKER_NOT_AVAILABLE once closed."""
        if self._closed:
            raise _stopped()
        self._next_token += 1
        pending = self._pending[self._next_token] = PendingResponse()
        return self._next_token, pending

    def complete(self, token: int, response: core.AnyResponse) -> None:
        """Unknown tokens are those of forgotten requests."""
        pending = self._pending.pop(token, None)
        if pending is not None:
            pending.complete(response)

    def close(self) -> None:
        """Fails all requests, and those that come from now on, with BROKER_NOT_AVAILABLE."""
        self._closed = True
        for pending in list(self._pending.values()):
            pending.fail(_stopped())


def _stopped() -> KafkaError:
    return KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the node has stopped")
