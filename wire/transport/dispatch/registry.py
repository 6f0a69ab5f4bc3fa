"""The registry of handlers by request. ApiVersions is computed from the handlers, so the two always agree. Source:
KIP-35, KIP-511. Not implemented here: I/O and quotas.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.header import encode_response
from trimaran.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from trimaran.wire.schema import DECODE_BUDGET, DecodeBudget, Message
from trimaran.wire.transport.dispatch.api_versions import (
    Features,
    NodeIdentity,
    api_versions_response,
    unsupported_api_versions,
)
from trimaran.wire.transport.dispatch.dispatch import Dispatched, begin, decode, nested
from trimaran.wire.transport.dispatch.route import Route, route_of
from trimaran.wire.transport.memory.pools import ELEMENT_BYTES
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo
from trimaran.wire.transport.requests.elements import HEAVY_BYTES
from trimaran.wire.transport.requests.guard import Judge
from trimaran.wire.transport.requests.handles import Handled, declaration_of, handles
from trimaran.wire.transport.requests.hooks import Hooks
from trimaran.wire.transport.scheduling.compute_thread import run_apart
from trimaran.wire.transport.scheduling.effects import Handling

log = logging.getLogger(__name__)

C = TypeVar("C")

API_VERSIONS_KEY = 18

# Most elements take at least this many bytes on the wire: an index, or a name.
ELEMENT_FRAME_BYTES = 4

# api key, api version, correlation id: these fields are the same in every header version, so they can be read before
# the header
_HEAD = struct.Struct(">hhi")


class UnsupportedRequest(RemoteProtocolError):
    """An API key or version that is not served here."""


_OF_THE_CONNECTION = open_to_all("about the connection itself, also before authentication")


@handles(SaslHandshakeRequest, versions="0-1", access=_OF_THE_CONNECTION)
def _sasl_handshake(
    _request: SaslHandshakeRequest, _context: object, _call: Call
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


@handles(SaslAuthenticateRequest, versions="0-2", access=_OF_THE_CONNECTION)
def _sasl_authenticate(
    _request: SaslAuthenticateRequest, _context: object, _call: Call
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="this connection is not, or no longer, to be authenticated by SASL",
        auth_bytes=b"",
    )


# On an open connection there is nothing to authenticate; during a login, `trimaran.wire.security.sasl.authenticator`
# answers.
AFTER_LOGIN = (_sasl_handshake, _sasl_authenticate)


class Registry(Generic[C]):
    """The handlers of one kind of node; `features` returns the features that ApiVersions reports, and
    `identity` the node that a client must expect, or None if it may expect any node.

    `context_of` returns the part of the node's context that a handler is given, if it is not given the whole.
    `judge` decides which principals may perform the operations that the handlers declare; without it every client may.
    `hooks` are called for every request. `unadvertised` are low versions of some requests that are served, but that
    ApiVersions does not list.
    """

    def __init__(
        self,
        handlers: Iterable[Callable[..., Any]],
        *,
        features: Callable[[C], Features] = lambda _context: Features(),
        identity: Callable[[C], NodeIdentity | None] = lambda _context: None,
        context_of: Mapping[Callable[..., Any], Callable[[C], Any]] = {},
        judge: Judge | None = None,
        hooks: Hooks | None = None,
        unadvertised: Mapping[type[Message], Versions] = {},
    ) -> None:
        self._features = features
        self._identity = identity
        self._unadvertised = {request.KEY: versions for request, versions in unadvertised.items()}
        self._routes: dict[int, Route] = {}
        limited_log = LimitedLog(log)
        own: tuple[Callable[..., Any], ...] = (self._api_versions, *AFTER_LOGIN)
        for handler in (*own, *handlers):
            route = route_of(handler, limited_log, judge, hooks, context_of.get(handler))
            assert route.request.KEY not in self._routes, (
                f"two handlers for {route.request.__name__}"
            )
            self._routes[route.request.KEY] = route

    def api_versions(self) -> dict[int, Versions]:
        """Returns the advertised versions by API key."""
        return {key: self._advertised(route) for key, route in sorted(self._routes.items())}

    def _advertised(self, route: Route) -> Versions:
        hidden = self._unadvertised.get(route.request.KEY)
        return route.versions if hidden is None else route.versions._replace(low=hidden.high + 1)

    def routes(self) -> list[Route]:
        """Returns the routes by API key."""
        return [route for _, route in sorted(self._routes.items())]

    def handled(self) -> dict[int, Handled]:
        """Returns the declarations of the handlers by API key."""
        return {key: declaration_of(route.handler) for key, route in sorted(self._routes.items())}

    def dispatch(
        self,
        frame: memoryview,
        context: C,
        connection: ConnectionInfo,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> Dispatched:
        """Decodes one request, within `budget`, and begins its handler."""
        if len(frame) < _HEAD.size:
            raise RemoteProtocolError(f"a request of {len(frame)} bytes has no header")
        key, version, correlation_id = _HEAD.unpack_from(frame)
        route = self._routes.get(key)
        if route is None:
            raise UnsupportedRequest(f"api key {key} is not served here")
        versions = route.versions
        if not versions.low <= version <= versions.high:
            return self._unsupported(route, version, correlation_id)
        return begin(route, *decode(route, frame, budget, connection), context)

    async def dispatch_heavy(
        self,
        frame: memoryview,
        context: C,
        connection: ConnectionInfo,
        budget: DecodeBudget = DECODE_BUDGET,
    ) -> Dispatched:
        """Decodes and begins a request as `dispatch` does, if its frame `is_heavy`; `frame` is kept in the meantime."""
        key, version, correlation_id = _HEAD.unpack_from(frame)
        route = self._routes[key]
        if version not in route.versions:
            return self._unsupported(route, version, correlation_id)
        whom = connection.id
        call, request = await run_apart(decode, route, frame, budget, connection, whom=whom)
        call.heavy = call.heavy or not route.takes_frame
        if route.once is not None:
            request = await run_apart(route.once, request, whom=whom)
        return begin(route, call, request, context)

    def nested(
        self, frame: memoryview, context: C, connection: ConnectionInfo, outer: Call
    ) -> Handling[Outgoing | None]:
        """Handles the request in `frame`, which is embedded in the request of `outer`, inside the handler of `outer`.
        The version must be in `api_versions`. Returns the response; raises as `dispatch` does.
        """
        route = self._routes[_HEAD.unpack_from(frame)[0]]
        return nested(route, frame, context, connection, outer, is_heavy=self.is_heavy(frame))

    def is_heavy(self, frame: memoryview) -> bool:
        """Whether the frame must go through `dispatch_heavy`."""
        if len(frame) <= HEAVY_BYTES:
            return False
        route = self._routes.get(_HEAD.unpack_from(frame)[0])
        return route is not None and not route.is_light

    def memory_of(self, frame: memoryview) -> int:
        """Returns the number of bytes that a heavy request may take while it is decoded and handled."""
        route = self._routes[_HEAD.unpack_from(frame)[0]]
        elements = min(len(frame) // ELEMENT_FRAME_BYTES, route.elements_max)
        return len(frame) + elements * ELEMENT_BYTES

    def refuse(self, frame: memoryview, code: ErrorCode, message: str) -> Outgoing | None:
        """Returns the response with the error `code` to a request whose body is not decoded; None if its response has
        no error code.
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

    def _api_versions(
        self, request: ApiVersionsRequest, context: C, call: Call
    ) -> ApiVersionsResponse:
        return api_versions_response(
            request, call, self.api_versions(), self._features(context), self._identity(context)
        )

    _api_versions.__handles__ = Handled(  # type: ignore[attr-defined]
        ApiVersionsRequest, Versions(0, 5), _OF_THE_CONNECTION
    )
