"""Sends an encoded request to a broker's registry of handlers, and decodes the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.slices import slice_of_requests
from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.schema import Message
from trimaran.wire.transport.dispatch.running import RunningRequest
from trimaran.wire.transport.requests.calls import ConnectionInfo

if TYPE_CHECKING:
    from tests.simulation.partitions.broker import SimBroker

CORRELATION_ID = 1


class Frames:
    """A connection for a request."""

    def __init__(
        self, broker: Any, client_id: str, version: int, connection: ConnectionInfo | None = None
    ) -> None:
        """`connection` is None for a connection without other requests."""
        self._broker = broker
        self._connection = connection
        self._client_id = client_id
        self._version = version

    async def handle(self, request: Message) -> Any:
        """Returns the response; an error in the handler is raised."""
        broker: SimBroker = self._broker
        frame = encode_request(request, self._version, CORRELATION_ID, self._client_id)
        info = self._connection or ConnectionInfo(
            broker.world.next_number(), "PLAINTEXT", ("client", 1), ("sim", broker.id)
        )
        with slice_of_requests():
            found = self._broker.registry.dispatch(memoryview(frame), broker.contexts, info)
        if isinstance(found, RunningRequest):
            found = await found.finish()
        assert isinstance(found, Outgoing)
        data = _joined(found)
        _, start = decode_response_header(data, request.KEY, self._version)
        return RESPONSES[request.KEY].decode(memoryview(data)[start:], self._version)


def _joined(outgoing: Outgoing) -> bytes:
    """Returns the response's bytes, with the pieces of files as they are when it is sent."""
    parts, at = [], 0
    for place, splice in outgoing.splices:
        parts += [bytes(outgoing[at:place]), splice.read()]  # type: ignore[attr-defined]
        at = place
    return b"".join([*parts, bytes(outgoing[at:])])
