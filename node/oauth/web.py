"""One request to an identity provider, with limits on time and size. Blocks, so it is called in a thread.

Only https is allowed, and http to this machine; redirects are not followed, and no file is opened by URL.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trimaran.node.runtime.clock import now_ms
from trimaran.wire.identity import Address

if TYPE_CHECKING:
    import http.client

BYTES_MAX = 1 << 20
SECONDS_MAX = 10.0
_PIECE_BYTES = 65536
_REFUSAL_BYTES = 16384  # a refusal is an error code and a sentence


class WebError(Exception):
    """There is no usable response; the message gives the reason, but no content of the request or response."""


class StatusError(WebError):
    """The provider refuses the request: the beginning of its answer, which may echo the request and is not to be shown,
    and the seconds by which its clock is ahead of ours, 0 if it does not send the time.
    """

    def __init__(self, status: int, body: bytes, seconds_ahead: float) -> None:
        super().__init__(f"the identity provider answers with status {status}")
        self.body, self.seconds_ahead = body, seconds_ahead


@dataclass(frozen=True, slots=True)
class Web:
    """The settings for connections to a provider; `tls` None trusts the machine's authorities."""

    tls: ssl.SSLContext | None = None
    seconds_max: float = SECONDS_MAX
    bytes_max: int = BYTES_MAX

    def get(self, url: str) -> bytes:
        """Returns the body of the response. Raises WebError."""
        return self._ask("GET", url, {}, None)

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """Returns the body of the response. Raises WebError."""
        return self._ask("POST", url, headers, body)

    def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:

        deadline = _Deadline(self.seconds_max)
        connection, path = self._connection(url)
        connection._create_connection = deadline.connect  # type: ignore[attr-defined] # noqa: SLF001
        try:
            with deadline:
                connection.request(method, path, body, {"Accept": "application/json", **headers})
                with connection.getresponse() as response:
                    if response.status not in (http.client.OK, http.client.CREATED):
                        raise _refusal(response)
                    data = self._read(response)
        except (OSError, http.client.HTTPException, ValueError) as error:
            # A read that begins with the exchange may time out before the deadline's own timer.
            if deadline.has_passed or isinstance(error, TimeoutError):
                raise WebError(f"{connection.host}: {self._too_slow}") from error
            raise WebError(f"no answer from {connection.host}: {error}") from error
        finally:
            connection.close()
        if deadline.has_passed:  # the data read so far may be incomplete
            raise WebError(f"{connection.host}: {self._too_slow}")
        return data

    @property
    def _too_slow(self) -> str:
        return f"the answer takes longer than {self.seconds_max:g} s"

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, str]:

        check_url(url)
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=self.seconds_max), path
        context = self.tls or ssl.create_default_context()
        secured = http.client.HTTPSConnection(
            host, parts.port, timeout=self.seconds_max, context=context
        )
        return secured, path

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        data = bytearray()
        while piece := response.read1(_PIECE_BYTES):
            data += piece
            if len(data) > self.bytes_max:
                raise WebError(f"the answer is larger than {self.bytes_max} bytes")
        return bytes(data)


def _refusal(response: http.client.HTTPResponse) -> StatusError:
    body = b""
    with suppress(OSError, http.client.HTTPException, ValueError):  # the status alone is enough
        body = response.read(_REFUSAL_BYTES)
    try:
        there = parsedate_to_datetime(response.headers["Date"]).timestamp()
        ahead = there - now_ms() / 1000
    except (TypeError, ValueError, OverflowError):
        ahead = 0.0
    return StatusError(response.status, body, ahead)


class _Deadline:
    """Limits the whole exchange: a socket timeout restarts with each byte, so a peer that sends single bytes could keep
    the thread waiting without end. At the deadline the socket is shut down, which wakes the thread that reads or
    writes.
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self.has_passed = False

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()  # the timer may be using the socket
        if self._socket is not None:
            self._socket.close()

    def connect(self, address: Address, timeout: float, *_: object) -> socket.socket:
        """Connects to one of the addresses of a host, trying all of them within the deadline. Raises OSError."""
        failure = OSError("it has no address")
        for family, kind, protocol, _name, where in socket.getaddrinfo(
            *address, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(max(0.001, self._end - time.monotonic()))
                made.connect(where)
            except OSError as error:
                made.close()
                failure = error
                continue
            made.settimeout(timeout)
            self._socket = made.dup()  # TLS takes over the first descriptor
            return made
        raise failure

    def _pass(self) -> None:
        self.has_passed = True
        if self._socket is not None:
            with suppress(OSError):  # closed already
                self._socket.shutdown(socket.SHUT_RDWR)


def check_url(url: str) -> None:
    """Raises WebError unless requests to the URL are allowed."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise WebError("it is not a URL") from None
    if not host or parts.username is not None:
        raise WebError("the URL of an identity provider must name a host, and no user")
    if parts.scheme == "https" or (parts.scheme == "http" and _is_here(host)):
        return
    raise WebError("an identity provider needs https; http only on this machine")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
