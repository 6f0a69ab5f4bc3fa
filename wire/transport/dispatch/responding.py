"""Encodes the outcome of a handler as a response: creates errors in the form of the API, calls hooks, and encodes.

A response that is large, or that answers a large request, is encoded in the compute thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.buffers.response_size import ResponseTooLarge
from trimaran.wire.errors import CloseConnection, KafkaError, RemoteProtocolError
from trimaran.wire.messages.header import RequestHeader, decode_request_header, encode_response
from trimaran.wire.schema import Message
from trimaran.wire.transport.dispatch.route import Route
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.compute_thread import run_apart

Response: TypeAlias = Message | Outgoing | None
# The result of a handler: its response, or the error that the peer receives.
Outcome: TypeAlias = Response | KafkaError


def outcome(
    route: Route, passes: tuple[type[Exception], ...], work: Callable[..., Any], *given: Any
) -> Any:
    """Returns the result of `work(*given)`, or the KafkaError for its exception; exceptions in `passes` are raised."""
    try:
        return work(*given)
    except passes:
        raise
    except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
        found = route.as_kafka_error(error)
        error.__traceback__ = None  # its frames refer to the error and to the request: a cycle
        return found


def respond(route: Route, request: Any, found: Outcome, call: Call) -> Outgoing | None:
    """Returns the frame for the outcome of a handler; `request` is None if it is no longer in memory.

    Raises:
        CloseConnection: no response can carry the error.
    """
    if isinstance(found, KafkaError):
        found = refusal(route, request, found, call.header.api_version)
    route.ended(call, found)
    return encode_or_refuse(route, request, found, call.header)


async def respond_apart(route: Route, request: Any, found: Outcome, call: Call) -> Outgoing | None:
    """Responds as `respond` does; hooks are called on the loop, and the thread does the remaining work."""
    whom = call.connection.id
    if isinstance(found, KafkaError):
        version = call.header.api_version
        found = await run_apart(refusal, route, request, found, version, whom=whom)
    route.ended(call, found)
    return await run_apart(encode_or_refuse, route, request, found, call.header, whom=whom)


def refusal(route: Route, request: Any, error: KafkaError, version: int) -> Message:
    """Returns the error response. Raises CloseConnection: no response can carry the error, or the forwarded bytes are
    not a request of this API.
    """
    if not route.takes_frame:
        return route.error_response_to(request, error, version)
    budget = route.budget
    try:
        header, start = decode_request_header(request, budget)
        decoded = route.request.decode_prefix(request[start:], header.api_version, budget)[0]
    except RemoteProtocolError as malformed:
        raise CloseConnection(str(malformed)) from malformed
    return route.error_response_to(decoded, error, header.api_version)


def encode_or_refuse(
    route: Route, request: Any, response: Response, header: RequestHeader
) -> Outgoing | None:
    """Encodes the response; if it is too large, the error response of its API is sent instead.

    Raises:
        CloseConnection: the API has no error response, or the error response is also too large.
    """
    if response is None or isinstance(response, Outgoing):
        return response  # the bytes are the response of another node, including its header
    version, number = header.api_version, header.correlation_id
    try:
        return encode_response(response, version, number)
    except ResponseTooLarge as error:
        refused = refusal(route, request, error, version)
    try:
        return encode_response(refused, version, number)
    except ResponseTooLarge as error:  # the request itself has megabytes of repeated names
        raise CloseConnection(
            f"{route.request.__name__} cannot be answered: its errors alone are too large"
        ) from error
