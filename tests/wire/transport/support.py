"""A server with toy handlers on a real socket, and a client that sends raw frames."""

import socket
import struct
from contextlib import asynccontextmanager
from functools import partial

import trio
import trio.testing

from trimaran.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.security.listener import PLAINTEXT_LISTENER
from trimaran.wire.transport.connection.limits import ConnectionLimits
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Wait
from trimaran.wire.transport.server.server import Listener, serve_listener

HEARTBEAT_VERSION = 4
# The kernel moves bytes between two sockets of this machine within microseconds, or at its next turn if it is busy.
SETTLED_SECONDS = 0.005


def sized(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + bytes(body)


def request_frame(request, version: int, correlation_id: int = 0, client_id: str | None = "test"):
    return sized(encode_request(request, version, correlation_id, client_id))


def heartbeat_frame(group: str, correlation_id: int = 0) -> bytes:
    request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    return request_frame(request, HEARTBEAT_VERSION, correlation_id)


def api_versions_frame(version: int = 4, correlation_id: int = 0) -> bytes:
    request = ApiVersionsRequest(client_software_name="toy", client_software_version="1.0")
    return request_frame(request, version, correlation_id)


class Toy:
    """A context in which the test scripts the responses to heartbeats, by group."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.connections = {}
        self.deferred: dict[str, trio.Event] = {}
        self.failures: dict[str, Exception] = {}

    def defer(self, group: str) -> trio.Event:
        return self.deferred.setdefault(group, trio.Event())


@handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
def heartbeat(request, toy, call):
    group = request.group_id
    toy.begun.append(group)
    toy.connections[group] = call.connection
    if group in toy.failures and group not in toy.deferred:
        raise toy.failures[group]
    if group not in toy.deferred:
        return HeartbeatResponse(throttle_time_ms=len(toy.begun))
    event = toy.deferred[group]
    number = len(toy.begun)

    async def finish():
        await event.wait()
        if group in toy.failures:
            raise toy.failures[group]
        return HeartbeatResponse(throttle_time_ms=number)

    return (yield Wait(finish, event.is_set))


@asynccontextmanager
async def open_server(*handlers, context=None, security=PLAINTEXT_LISTENER, quotas=None, **limits):
    """Serves on a free port until the block ends; yields the `Server`."""
    listener = Listener.bind("PLAINTEXT", "127.0.0.1", 0, security=security)
    registry = handlers[0] if handlers and isinstance(handlers[0], Registry) else Registry(handlers)
    async with trio.open_nursery() as nursery:
        bounds = ConnectionLimits(**limits)
        serve = partial(serve_listener, [listener], registry, context, limits=bounds, quotas=quotas)
        yield await nursery.start(serve)
        nursery.cancel_scope.cancel()


class RawClient:
    """A client that sends bytes and reads frames."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.buffer = bytearray()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def frame(self) -> bytes | None:
        """Returns the next response without its size; None if the server closed the connection."""
        while len(self.buffer) < 4 or len(self.buffer) - 4 < self._size():
            try:
                data = await self.stream.receive_some(65536)
            except trio.BrokenResourceError:
                data = b""
            if not data:
                assert not self.buffer, "closed within an answer"
                return None
            self.buffer += data
        end = 4 + self._size()
        found = bytes(self.buffer[4:end])
        del self.buffer[:end]
        return found

    def _size(self) -> int:
        return int.from_bytes(self.buffer[:4], "big")

    async def answer(self, key: int, version: int):
        """Returns (correlation id, response), or None at the end."""
        frame = await self.frame()
        if frame is None:
            return None
        correlation_id, body = decode_response_header(frame, key, version)
        return correlation_id, RESPONSES[key].decode(frame[body:], version)

    async def heartbeat(self):
        return await self.answer(HeartbeatRequest.KEY, HEARTBEAT_VERSION)

    async def is_closed(self) -> bool:
        with trio.fail_after(60):
            return await self.frame() is None

    def reset(self) -> None:
        """Closes with RST instead of FIN."""
        linger = struct.pack("ii", 1, 0)
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.stream.socket.close()


@asynccontextmanager
async def open_raw(server, listener: str = "PLAINTEXT", receive_buffer: int | None = None):
    """Opens a connection to a listener of `server`."""
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    await sock.connect(server.addresses[listener])
    async with trio.SocketStream(sock) as stream:
        yield RawClient(stream)


async def ask_api_versions(client: RawClient, version: int = 4) -> ApiVersionsResponse:
    await client.send(api_versions_frame(version, 77))
    correlation_id, response = await client.answer(18, version)
    assert correlation_id == 77
    return response


async def settled() -> None:
    """Returns when no task can run, and no bytes are in transit to any task."""
    await trio.testing.wait_all_tasks_blocked(SETTLED_SECONDS)
