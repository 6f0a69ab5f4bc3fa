"""A small HTTP/1.1 server for trio: GET and HEAD, with responses in memory. h11 implements the protocol.

Bounds: at most `CONNECTIONS_MAX` connections are open. A new connection replaces one that waits for its peer to send a
request or to read a response, so that neither idle nor slow peers keep a probe out. A request line with its headers has
at most h11's 16 KiB, and no body. The arrival of a request and the sending of its response have time limits.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import h11
import trio

from trimaran.metrics import events
from trimaran.wire.transport.metrics.limited_log import LimitedLog

log = logging.getLogger(__name__)

# Enough for a scraper or two, a supervisor and a browser.
CONNECTIONS_MAX = 32
# Includes the time between two requests: scrapers send one every 15 to 60 s.
REQUEST_SECONDS = 90.0
RESPONSE_SECONDS = 30.0
_RECEIVE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; `path` excludes the query, and names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    query: str = ""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: Sequence[tuple[str, str]] = ()


Respond = Callable[[HttpRequest], Awaitable[HttpResponse]]


async def serve_http(listener: trio.SocketListener, respond: Respond) -> None:
    """Serves until it is cancelled; an exception of `respond` is logged, and results in a 500."""
    places = _Places()
    limited_log = LimitedLog(log)

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            if not places.make_room():
                limited_log.log(events.METRICS_FULL, connections=len(places.open))
                return
            connection = _Connection(stream, respond, limited_log, places)
            places.open[connection] = _address_of(stream)
            try:
                with connection.scope:
                    await connection.serve()
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the peer is gone
            finally:
                places.leave(connection)

    await trio.serve_listeners(serve, [listener])


def _address_of(stream: trio.SocketStream) -> str:
    try:
        return str(stream.socket.getpeername()[0])
    except OSError:  # the peer is gone already
        return ""


@dataclass(slots=True)
class _Places:
    """The open connections with their peers' addresses, and those that wait for their peers, longest first."""

    open: dict[_Connection, str] = field(default_factory=dict)
    waiting: dict[_Connection, None] = field(default_factory=dict)

    def make_room(self) -> bool:
        """Closes the longest waiting connection of the address with the most connections; returns False if none
        waits.
        """
        if len(self.open) < CONNECTIONS_MAX:
            return True
        counts = Counter(self.open.values())
        victim = max(self.waiting, key=lambda one: counts[self.open[one]], default=None)
        if victim is None:
            return False
        victim.scope.cancel()
        self.leave(victim)
        return True

    def leave(self, connection: _Connection) -> None:
        self.open.pop(connection, None)
        self.waiting.pop(connection, None)


class _Connection:
    """A connection, which serves one request after another."""

    def __init__(
        self,
        stream: trio.SocketStream,
        respond: Respond,
        limited_log: LimitedLog,
        places: _Places,
    ) -> None:
        self.scope = trio.CancelScope()
        self._places = places
        self._stream = stream
        self._respond = respond
        self._log = limited_log
        self._http = h11.Connection(h11.SERVER)
        self._wants_head_only = False

    async def serve(self) -> None:
        """Returns when the peer has finished, is too slow, or has sent an invalid request."""
        going_on = True
        while going_on:
            going_on = False
            with trio.move_on_after(REQUEST_SECONDS):
                self._places.waiting[self] = None
                response = await self._next_answer()
                if response is None:
                    return
                self._places.waiting[self] = None
                with trio.move_on_after(RESPONSE_SECONDS):
                    await self._send(response)
                self._places.waiting.pop(self, None)
                if self._http.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
                    self._http.start_next_cycle()
                    going_on = True

    async def _next_answer(self) -> HttpResponse | None:
        """Returns the next response; None if there will be no further request."""
        try:
            request = await self._next_event()
            if not isinstance(request, h11.Request):
                return None
            if isinstance(await self._next_event(), h11.Data):
                return _error(413, "a request has no body here")
        except h11.RemoteProtocolError as error:
            return _error(error.error_status_hint, str(error))
        finally:
            self._places.waiting.pop(self, None)
        self._wants_head_only = request.method == b"HEAD"
        if request.method not in (b"GET", b"HEAD"):
            return _error(405, "only GET and HEAD are served here")
        return await self._answer(request)

    async def _next_event(self) -> h11.Event | type:
        """Returns the next event of the connection. Raises h11.RemoteProtocolError."""
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._stream.receive_some(_RECEIVE_BYTES))

    async def _answer(self, request: h11.Request) -> HttpResponse:
        path, _, query = request.target.decode("ascii", "replace").partition("?")
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        try:
            return await self._respond(HttpRequest(path, headers, query))
        except Exception as error:  # noqa: BLE001 - it must not end the node
            self._log.log(events.METRICS_FAILED, exc_info=error, path=path)
            return _error(500, "it failed, see the log of the node")

    async def _send(self, response: HttpResponse) -> None:
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            *response.headers,
        ]
        http = self._http
        sent = http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if not self._wants_head_only:
            sent += http.send(h11.Data(data=response.body)) or b""
        sent += http.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(sent)


def _error(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode(), headers=[("Connection", "close")])
