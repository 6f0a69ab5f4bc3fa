"""Which handler answers which request, and the way from a frame to its answer.

ApiVersions is computed from the handlers, so it cannot lie. Source: KIP-35, KIP-511; `RequestHandlerHelper` for errors.
Left out: reading and writing; quotas.
"""

from __future__ import annotations

import inspect
import logging
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, cast

from wire.declarations import Versions
from wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.header import RequestHeader, decode_request_header, encode_response
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wire.outgoing import Outgoing
from wire.schema import DECODE_BUDGET, DecodeBudget, Message
from wire.transport.api_versions import Features, answer_api_versions, unsupported_api_versions
from wire.transport.calls import Call, CloseConnection, ConnectionInfo, Parked
from wire.transport.error_answers import GeneralError, OnError, general_error
from wire.transport.limited_log import LimitedLog

log = logging.getLogger(__name__)

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

API_VERSIONS_KEY = 18

# api key, api version, correlation id: the same in every header version, so readable before the header is
_HEAD = struct.Struct(">hhi")


class UnsupportedRequest(RemoteProtocolError):
    """An api key that is not served here, or a version of it that is not."""


@dataclass(slots=True, frozen=True)
class Handled:
    """What `handles` notes on a function."""

    request: type[Message]
    versions: Versions
    on_error: OnError | None


def handles(
    request: type[Message], *, versions: str, on_error: OnError | None = None
) -> Callable[[F], F]:
    """Declares which request, in which versions (`"3-13"`), a function answers; does nothing else.

    `on_error`, `(request, code, message) -> response`, answers an exception out of the handler where Kafka's error is not
    just the top-level `error_code` of the response.
    """

    def note(function: F) -> F:
        cast(Any, function).__handles__ = Handled(request, Versions.parse(versions), on_error)
        return function

    return note


# Raises KafkaError for who may not ask this; given the handler's context and call.
Guard = Callable[[Any, Call], None]


@dataclass(slots=True, frozen=True)
class Route:
    """One row of the registry."""

    request: type[Message]
    versions: Versions
    handler: Callable[..., Any]
    is_async: bool
    on_error: OnError | None
    general_error: GeneralError | None
    log: LimitedLog
    guard: Guard | None

    def error_response(
        self,
        error: Exception,
        version: int,
        special: Callable[[ErrorCode, str], Message] | None = None,
    ) -> Message:
        """What to answer for an exception out of the handler; `special` is the handler's own way to say it.

        Raises:
            CloseConnection: no answer can say it.
        """
        code, text = self._code_of(error)
        if special is not None:
            return special(code, text)
        if self.general_error is not None and version in self.general_error.versions:
            return self.general_error.build(code, text)
        raise CloseConnection(f"{self.request.__name__} failed: {error!r}") from error

    def error_response_to(self, request: Message, error: Exception, version: int) -> Message:
        """The same while the request is at hand."""
        special = None if self.on_error is None else partial(self.on_error, request)
        return self.error_response(error, version, special)

    def _code_of(self, error: Exception) -> tuple[ErrorCode, str]:
        """The code to answer. The text of an error that was not meant for the peer does not reach it."""
        if isinstance(error, KafkaError):
            return error.code, error.message
        name = self.request.__name__
        self.log.exception(name, error, "%s failed", name)
        return ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error, see the log of the node"


@dataclass(slots=True)
class Pending:
    """A parked answer with what is needed to encode it."""

    parked: Parked[Any]
    route: Route
    header: RequestHeader

    def ready(self) -> bool:
        return self.parked.ready is not None and self.parked.ready()

    async def finish(self) -> Outgoing | None:
        """Awaits and encodes the response.

        Raises:
            CloseConnection: there is no answer for what went wrong.
        """
        try:
            response: Message | Outgoing | None = await self.parked.finish()
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            version = self.header.api_version
            response = self.route.error_response(error, version, self.parked.on_error)
        return _encode(response, self.header)


Answer = Outgoing | Pending | None


@handles(SaslHandshakeRequest, versions="0-1")
def _answer_sasl_handshake(
    _request: SaslHandshakeRequest, _context: object, _call: Call
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


@handles(SaslAuthenticateRequest, versions="0-2")
def _answer_sasl_authenticate(
    _request: SaslAuthenticateRequest, _context: object, _call: Call
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="this connection is not, or no longer, to be authenticated by SASL",
        auth_bytes=b"",
    )


# On an open connection there is nothing to authenticate; before, `wire.security.sasl` answers.
AFTER_LOGIN = (_answer_sasl_handshake, _answer_sasl_authenticate)


class Registry(Generic[C]):
    """The handlers of one kind of node; `features` tells what ApiVersions says beside versions.

    `guards` are asked before the handler of a request is.
    """

    def __init__(
        self,
        handlers: Iterable[Callable[..., Any]],
        *,
        features: Callable[[C], Features] = lambda _context: Features(),
        guards: Mapping[type[Message], Guard] | None = None,
    ) -> None:
        self._features = features
        self._routes: dict[int, Route] = {}
        limited_log = LimitedLog(log)
        own: tuple[Callable[..., Any], ...] = (self._answer_api_versions, *AFTER_LOGIN)
        for handler in (*own, *handlers):
            route = _route_of(handler, limited_log, guards or {})
            assert route.request.KEY not in self._routes, (
                f"two handlers for {route.request.__name__}"
            )
            self._routes[route.request.KEY] = route

    def api_versions(self) -> dict[int, Versions]:
        """What is advertised: api key → versions."""
        return {key: route.versions for key, route in sorted(self._routes.items())}

    def dispatch(
        self,
        frame: memoryview,
        context: C,
        connection: ConnectionInfo,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> Answer:
        """Decodes one request, within `budget`, and runs stage one of its handler.

        Raises:
            RemoteProtocolError: nothing was called; the connection must close.
            CloseConnection: the handler wants it closed.
        """
        if len(frame) < _HEAD.size:
            raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header")
        key, version, correlation_id = _HEAD.unpack_from(frame)
        route = self._routes.get(key)
        if route is None:
            raise UnsupportedRequest(f"api key {key} is not served here")
        if version not in route.versions:
            return self._unsupported(route, version, correlation_id)
        header, body = decode_request_header(frame, budget)
        if route.is_async:
            return _start_async(route, header, bytes(frame[body:]), context, connection)
        request = _decode(route, frame[body:], version, budget)
        call = Call(header, connection)
        try:
            if route.guard is not None:
                route.guard(context, call)
            response = route.handler(request, context, call)
        except (CloseConnection, RemoteProtocolError):
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            response = route.error_response_to(request, error, version)
        if response is None:
            return None
        if isinstance(response, Parked):
            return Pending(response, route, header)
        return _encode(response, header)

    def refuse(self, frame: memoryview, code: ErrorCode, message: str) -> Outgoing | None:
        """The answer with `code` to a request whose body is not looked at; None where its response has no room for it."""
        key, version, correlation_id = _HEAD.unpack_from(frame)
        route = self._routes.get(key)
        if route is None or version not in route.versions or route.general_error is None:
            return None
        if version not in route.general_error.versions:
            return None
        response = route.general_error.build(code, message)
        return encode_response(response, version, correlation_id)

    def _unsupported(self, route: Route, version: int, correlation_id: int) -> Outgoing:
        key = route.request.KEY
        if key == API_VERSIONS_KEY:
            return encode_response(unsupported_api_versions(route.versions), 0, correlation_id)
        name = route.request.__name__
        raise UnsupportedRequest(
            f"{name} v{version}, served is {route.versions.low} to {route.versions.high}"
        )

    def _answer_api_versions(
        self, request: ApiVersionsRequest, context: C, call: Call
    ) -> ApiVersionsResponse:
        return answer_api_versions(request, call, self.api_versions(), self._features(context))

    _answer_api_versions.__handles__ = Handled(ApiVersionsRequest, Versions(0, 4), None)  # type: ignore[attr-defined]


def _route_of(
    handler: Callable[..., Any], limited_log: LimitedLog, guards: Mapping[type[Message], Guard]
) -> Route:
    handled = getattr(handler, "__handles__", None)
    assert isinstance(handled, Handled), f"{handler!r} lacks @handles"
    served = handled.request.VERSIONS
    assert served.low <= handled.versions.low <= handled.versions.high <= served.high, handled
    return Route(
        handled.request,
        handled.versions,
        handler,
        inspect.iscoroutinefunction(handler),
        handled.on_error,
        None if handled.on_error else general_error(handled.request),
        limited_log,
        guards.get(handled.request),
    )


def _start_async(
    route: Route, header: RequestHeader, body: bytes, context: Any, connection: ConnectionInfo
) -> Pending:
    """An async handler runs when its turn comes, on bytes of its own: the receive buffer has moved on by then."""
    request = _decode(route, body, header.api_version)
    call = Call(header, connection)

    async def finish() -> Message | Outgoing | None:
        try:
            if route.guard is not None:
                route.guard(context, call)
            handling: Awaitable[Message | Outgoing | None] = route.handler(request, context, call)
            return await handling
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            return route.error_response_to(request, error, header.api_version)

    return Pending(Parked(cast(Any, finish)), route, header)


def _decode(
    route: Route, body: memoryview | bytes, version: int, budget: DecodeBudget = DECODE_BUDGET
) -> Message:
    """The request at the start of `body`.

    What follows it is ignored, as Kafka ignores it: librdkafka 2.16 asks for the metadata of all topics with three bytes
    too many.
    """
    return route.request.decode_prefix(body, version, budget)[0]


def _encode(response: Message | Outgoing | None, header: RequestHeader) -> Outgoing | None:
    """Bytes are the answer of another node to which the request was passed on, header and all."""
    if response is None or isinstance(response, Outgoing):
        return response
    return encode_response(response, header.api_version, header.correlation_id)
