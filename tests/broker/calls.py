"""Calls handlers as the transport does, without a socket."""

from __future__ import annotations

import inspect
from typing import Any

from trimaran.wire.messages.header import RequestHeader
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo, DeferredResponse


def connection(listener: str = "PLAINTEXT") -> ConnectionInfo:
    return ConnectionInfo(1, listener, ("127.0.0.1", 1), ("127.0.0.1", 2))


def call(request: Message, version: int, on: ConnectionInfo | None = None) -> Call:
    return Call(RequestHeader(request.KEY, version, 1, "test"), on or connection())


def through_wire(request: Any, version: int) -> Any:
    """The request as the broker sees it in that version; record bytes are writable views, as of a receive buffer."""
    return type(request).decode(memoryview(bytearray(request.encode(version))), version)


async def answered(handler: Any, request: Message, context: Any, asked: Call) -> Any:
    """The response of an async handler, or of one that defers, as a client reads it: what is encoded already, too."""
    response = await finished(handler(request, context, asked))
    if inspect.isawaitable(response):
        response = await response
    version = asked.header.api_version
    return type(response).decode(response.encode(version), version)


async def finished(response: Any) -> Any:
    """The response, awaited if it is parked."""
    return await response.finish() if isinstance(response, DeferredResponse) else response
