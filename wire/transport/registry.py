"""Which handler answers which request, and the way from a frame to its answer.

ApiVersions is computed from the handlers, so it cannot lie. Source: KIP-35, KIP-511; `RequestHandlerHelper` for errors.
Left out: reading and writing; quotas.
"""

from __future__ import annotations

import gc
import inspect
import logging
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple, cast

from wire.declarations import Versions
from wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from wire.messages.header import RequestHeader, decode_request_header, encode_response
from wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from wire.outgoing import Outgoing
from wire.schema import DECODE_BUDGET, DecodeBudget, Message
from wire.transport.access import Access, needs_of, open_to_all
from wire.transport.api_versions import Features, answer_api_versions, unsupported_api_versions
from wire.transport.calls import Call, CloseConnection, ConnectionInfo, DeferredResponse
from wire.transport.error_answers import GeneralError, OnError, general_error
from wire.transport.events import yield_to_loop
from wire.transport.guard import Judge, guarded
from wire.transport.heavy import (
    FEW_ELEMENTS_MAX,
    FROZEN_ELEMENTS_MIN,
    HEAVY_BYTES,
    LIGHT_ELEMENTS_MAX,
    run_apart,
)
from wire.transport.hooks import Hooks
from wire.transport.limited_log import LimitedLog
from wire.transport.memory import ELEMENT_BYTES
from wire.transport.slices import ITEMS_PER_SLICE, Slices

log = logging.getLogger(__name__)

C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

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
    access: Access
    on_error: OnError | None = None
    elements_max: int = DECODE_BUDGET.elements_max
    slices: Slices | None = None
    takes_frame: bool = False


def handles(
    request: type[Message],
    *,
    versions: str,
    access: Access,
    on_error: OnError | None = None,
    elements_max: int = DECODE_BUDGET.elements_max,
    slices: Slices | None = None,
    takes_frame: bool = False,
) -> Callable[[F], F]:
    """Declares which request, in which versions (`"3-13"`), a function answers, and who may ask; does nothing else.

    `on_error`, `(request, code, message) -> response`, answers an exception out of the handler where Kafka's error is
    not just the top-level `error_code` of the response. More than `elements_max` of all its arrays together are
    refused. A large request is handled in `slices`, if the function can. An async function that `takes_frame` gets the
    bytes of the request, header and all: no message is made of them but to answer an error.
    """

    def note(function: F) -> F:
        cast(Any, function).__handles__ = Handled(
            request, Versions.parse(versions), access, on_error, elements_max, slices, takes_frame
        )
        return function

    return note


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
    elements_max: int
    slices: Slices | None
    hooks: Hooks | None
    takes_frame: bool

    @property
    def is_light(self) -> bool:
        """Whether its requests are decoded at once, however many bytes they have."""
        return self.takes_frame or self.elements_max in (FEW_ELEMENTS_MAX, LIGHT_ELEMENTS_MAX)

    def error_response(
        self,
        error: KafkaError,
        version: int,
        special: Callable[[ErrorCode, str], Message] | None = None,
    ) -> Message:
        """What to answer for what `told` made of an exception; `special` is the handler's own way to say it.

        Raises:
            CloseConnection: no answer can say it.
        """
        if special is not None:
            return special(error.code, error.message)
        if self.general_error is not None and version in self.general_error.versions:
            return self.general_error.build(error.code, error.message)
        raise CloseConnection(f"{self.request.__name__} failed: {error!r}") from error

    def error_response_to(self, request: Message, error: KafkaError, version: int) -> Message:
        """The same while the request is at hand."""
        special = None if self.on_error is None else partial(self.on_error, request)
        return self.error_response(error, version, special)

    def told(self, error: Exception) -> KafkaError:
        """What the peer hears of an exception out of the handler; the text of one that was not meant for it stays in
        our log.
        """
        if isinstance(error, KafkaError):
            return error
        name = self.request.__name__
        self.log.exception(name, error, "%s failed", name)
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "unexpected error, see the log of the node"
        )


@dataclass(slots=True)
class DeferredFrame:
    """A deferred answer with what is needed to encode it."""

    deferred: DeferredResponse[Any]
    route: Route
    call: Call
    # Bytes of the request that stay in memory meanwhile, about.
    held: int = 0
    # The connection's next request must not begin before this is answered: its effects come in stage two.
    alone: bool = False

    def ready(self) -> bool:
        return self.deferred.ready is not None and self.deferred.ready()

    async def finish(self) -> Outgoing | None:
        """Awaits and encodes the response.

        Raises:
            CloseConnection: there is no answer for what went wrong.
        """
        try:
            response: Message | Outgoing | None = await self.deferred.finish()
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            response = await self._apart(self._error, self.route.told(error))
        if self.route.hooks is not None:
            self.route.hooks.end(self.call, response)
        return await self._apart(_encode, response, self.call.header)

    async def _apart(self, make: Callable[[*Ts], T], *args: *Ts) -> T:
        """An answer to a large request may be large: it is made in the thread for such work."""
        return await run_apart(make, *args) if self.call.heavy else make(*args)

    def _error(self, error: KafkaError) -> Message:
        return self.route.error_response(
            error, self.call.header.api_version, self.deferred.on_error
        )


Answer = Outgoing | DeferredFrame | None


_OF_THE_CONNECTION = open_to_all("about the connection itself, also before authentication")


@handles(SaslHandshakeRequest, versions="0-1", access=_OF_THE_CONNECTION)
def _answer_sasl_handshake(
    _request: SaslHandshakeRequest, _context: object, _call: Call
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


@handles(SaslAuthenticateRequest, versions="0-2", access=_OF_THE_CONNECTION)
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

    `judge` says who may do what the handlers declare; without one everybody may. `hooks` see every request.
    `unadvertised` are the lowest versions of some requests: they are answered, but ApiVersions does not tell of them.
    """

    def __init__(
        self,
        handlers: Iterable[Callable[..., Any]],
        *,
        features: Callable[[C], Features] = lambda _context: Features(),
        judge: Judge | None = None,
        hooks: Hooks | None = None,
        unadvertised: Mapping[type[Message], Versions] = {},
    ) -> None:
        self._features = features
        self._unadvertised = {request.KEY: versions for request, versions in unadvertised.items()}
        self._routes: dict[int, Route] = {}
        limited_log = LimitedLog(log)
        own: tuple[Callable[..., Any], ...] = (self._answer_api_versions, *AFTER_LOGIN)
        for handler in (*own, *handlers):
            route = _route_of(handler, limited_log, judge, hooks)
            assert route.request.KEY not in self._routes, (
                f"two handlers for {route.request.__name__}"
            )
            self._routes[route.request.KEY] = route

    def api_versions(self) -> dict[int, Versions]:
        """What is advertised: api key → versions."""
        return {key: self._advertised(route) for key, route in sorted(self._routes.items())}

    def _advertised(self, route: Route) -> Versions:
        hidden = self._unadvertised.get(route.request.KEY)
        return route.versions if hidden is None else route.versions._replace(low=hidden.high + 1)

    def routes(self) -> list[Route]:
        """The rows, by api key."""
        return [route for _, route in sorted(self._routes.items())]

    def handled(self) -> dict[int, Handled]:
        """What the functions declare, by api key."""
        return {
            key: cast(Any, route.handler).__handles__ for key, route in sorted(self._routes.items())
        }

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
        route = self._route(frame)
        if isinstance(route, Outgoing):
            return route
        return _begin(route, _decode(route, frame, budget), context, connection)

    async def dispatch_heavy(
        self,
        frame: memoryview,
        context: C,
        connection: ConnectionInfo,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> Answer:
        """As `dispatch`, for a frame that is too large to be decoded on the loop; `frame` is kept meanwhile."""
        route = self._route(frame)
        if isinstance(route, Outgoing):
            return route
        decoded = await run_apart(_decode, route, frame, budget)
        return await _begin_heavy(route, decoded, context, connection)

    def is_heavy(self, frame: memoryview) -> bool:
        """Whether `dispatch_heavy` must be taken."""
        if len(frame) <= HEAVY_BYTES:
            return False
        route = self._routes.get(_HEAD.unpack_from(frame)[0])
        return route is not None and not route.is_light

    def _route(self, frame: memoryview) -> Route | Outgoing:
        """Who handles this; or the answer to a version that is too new.

        Raises:
            RemoteProtocolError: nobody.
        """
        if len(frame) < _HEAD.size:
            raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header")
        key, version, correlation_id = _HEAD.unpack_from(frame)
        route = self._routes.get(key)
        if route is None:
            raise UnsupportedRequest(f"api key {key} is not served here")
        if version not in route.versions:
            return self._unsupported(route, version, correlation_id)
        return route

    def refuse(self, frame: memoryview, code: ErrorCode, message: str) -> Outgoing | None:
        """The answer with `code` to a request whose body is not looked at; None where its response has no
        room for it.
        """
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

    _answer_api_versions.__handles__ = Handled(  # type: ignore[attr-defined]
        ApiVersionsRequest, Versions(0, 4), _OF_THE_CONNECTION
    )


def _route_of(
    handler: Callable[..., Any], limited_log: LimitedLog, judge: Judge | None, hooks: Hooks | None
) -> Route:
    handled = getattr(handler, "__handles__", None)
    assert isinstance(handled, Handled), f"{handler!r} lacks @handles"
    needs = needs_of(handled.access)
    assert needs, f"{handler!r} does not say who may ask"
    is_async = inspect.iscoroutinefunction(handler)
    assert is_async or not handled.takes_frame, f"{handler!r} would take a part of the buffer"
    served = handled.request.VERSIONS
    assert served.low <= handled.versions.low <= handled.versions.high <= served.high, handled
    return Route(
        handled.request,
        handled.versions,
        guarded(handler, needs, judge, handled.on_error),
        is_async,
        handled.on_error,
        None if handled.on_error else general_error(handled.request),
        limited_log,
        handled.elements_max,
        handled.slices,
        hooks,
        handled.takes_frame,
    )


@dataclass(slots=True, frozen=True)
class _Decoded:
    header: RequestHeader
    # A Message; its frame, as bytes, for a handler that takes no more.
    request: Any
    # What it holds in memory, about.
    size: int


def _call(
    route: Route, decoded: _Decoded, connection: ConnectionInfo, *, heavy: bool = False
) -> Call:
    call = Call(decoded.header, connection, heavy)
    if route.takes_frame:
        call.heavy = decoded.size > HEAVY_BYTES
    if route.hooks is not None:
        route.hooks.begin(call)
    return call


def _begin(route: Route, decoded: _Decoded, context: Any, connection: ConnectionInfo) -> Answer:
    """Stage one of the handler, and the answer if that gives it."""
    call = _call(route, decoded, connection)
    found = _stage_one(route, decoded, context, call)
    if isinstance(found, DeferredFrame):
        return found
    if isinstance(found, KafkaError):
        found = route.error_response_to(decoded.request, found, decoded.header.api_version)
    if route.hooks is not None:
        route.hooks.end(call, found)
    return _encode(found, decoded.header)


async def _begin_heavy(
    route: Route, decoded: _Decoded, context: Any, connection: ConnectionInfo
) -> Answer:
    """As `_begin`; the answer is made in a thread, and hooks are called here."""
    call = _call(route, decoded, connection, heavy=True)
    if route.slices is not None and route.slices.count(decoded.request) > ITEMS_PER_SLICE:
        handling = _handling_slices(route, route.slices, decoded.request, context, call)
        return DeferredFrame(handling, route, call, decoded.size, alone=True)
    found = _stage_one(route, decoded, context, call)
    if isinstance(found, DeferredFrame):
        return found
    if isinstance(found, KafkaError):
        version = decoded.header.api_version
        found = await run_apart(route.error_response_to, decoded.request, found, version)
    if route.hooks is not None:
        route.hooks.end(call, found)
    return await run_apart(_encode, found, decoded.header)


def _stage_one(
    route: Route, decoded: _Decoded, context: Any, call: Call
) -> Message | Outgoing | DeferredFrame | KafkaError | None:
    """What the handler returns, or raises."""
    request = decoded.request
    if route.is_async:
        return DeferredFrame(_handling(route, request, context, call), route, call, decoded.size)
    try:
        response = route.handler(request, context, call)
    except (CloseConnection, RemoteProtocolError):
        raise
    except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
        return route.told(error)
    if isinstance(response, DeferredResponse):
        held = decoded.size if response.holds_request else 0
        return DeferredFrame(response, route, call, held)
    return cast(Message | Outgoing | None, response)


def _handling(route: Route, request: Any, context: Any, call: Call) -> DeferredResponse[Any]:
    """An async handler runs when its turn comes."""

    async def finish() -> Message | Outgoing | None:
        try:
            handling: Awaitable[Message | Outgoing | None] = route.handler(request, context, call)
            return await handling
        except CloseConnection:
            raise
        except Exception as error:  # noqa: BLE001 - a connection is isolated from its siblings
            told, version = route.told(error), call.header.api_version
            if route.takes_frame:
                return await run_apart(_error_response_to_frame, route, request, told)
            if call.heavy:
                return await run_apart(route.error_response_to, request, told, version)
            return route.error_response_to(request, told, version)

    return DeferredResponse(cast(Any, finish))


def _handling_slices(
    route: Route, slices: Slices, request: Message, context: Any, call: Call
) -> DeferredResponse[Any]:
    """One slice after the other. An error of the whole, of any slice, is the answer to all."""

    async def handle(part: Message) -> Message:
        response = route.handler(part, context, call)
        if isinstance(response, DeferredResponse):
            response = await response.finish()
        elif route.is_async:
            response = await response
        return cast(Message, response)

    async def finish() -> Message:
        parts = slices.of(request)
        whole = await handle(next(parts)[0])
        for part, goes_on in parts:
            if getattr(whole, "error_code", ErrorCode.NONE):
                break
            await yield_to_loop()
            answer = await handle(part)
            if getattr(answer, "error_code", ErrorCode.NONE):
                return answer
            slices.join(whole, answer, goes_on)
        return whole

    on_error = None if route.on_error is None else partial(route.on_error, request)
    return DeferredResponse(cast(Any, finish), on_error=on_error)


def _decode(route: Route, frame: memoryview, budget: DecodeBudget) -> _Decoded:
    """The request in `frame`; that of an async handler on bytes of its own, as the receive buffer has moved on by then.

    What follows it is ignored, as Kafka ignores it: librdkafka 2.16 asks for the metadata of all topics with three
    bytes too many.
    """
    header, start = decode_request_header(frame, budget)
    if route.takes_frame:
        return _Decoded(header, bytes(frame), len(frame))
    if budget.elements_max > route.elements_max:
        budget = budget._replace(elements_max=route.elements_max)
    body = bytes(frame[start:]) if route.is_async else frame[start:]
    request, _, elements = route.request.decode_counted(body, header.api_version, budget)
    if elements >= FROZEN_ELEMENTS_MIN:
        gc.freeze()
    return _Decoded(header, request, len(frame) + elements * ELEMENT_BYTES)


def _error_response_to_frame(route: Route, frame: bytes, error: KafkaError) -> Message:
    """Raises CloseConnection: what was passed on is no such request, or there is no answer for what went wrong."""
    budget = DECODE_BUDGET._replace(elements_max=route.elements_max)
    try:
        header, start = decode_request_header(frame, budget)
        request = route.request.decode_prefix(frame[start:], header.api_version, budget)[0]
    except RemoteProtocolError as malformed:
        raise CloseConnection(str(malformed)) from malformed
    return route.error_response_to(request, error, header.api_version)


def _encode(response: Message | Outgoing | None, header: RequestHeader) -> Outgoing | None:
    """Bytes are the answer of another node to which the request was passed on, header and all."""
    if response is None or isinstance(response, Outgoing):
        return response
    return encode_response(response, header.api_version, header.correlation_id)
