"""One bounded HTTP GET: a deadline for the whole exchange, a maximum size of the answer, no redirects."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from trimaran.wire.values.failures import RegistryFailure

ANSWER_BYTES_MAX = 4 << 20
"""The maximum size of a registry's answer; a schema of a megabyte is rare."""
REGISTRY_SECONDS_MAX = 15.0
"""The maximum time of a request, from connecting to the last byte."""


@dataclass(frozen=True)
class HttpAnswer:
    """A response. `artifact_type` is the value of Apicurio's header, empty if it is missing."""

    status: int
    body: bytes
    artifact_type: str


@dataclass(frozen=True)
class HttpServer:
    """The URL of a server, with the credentials and TLS settings for requests to it.

    User and password may be in the URL; they are never shown.
    """

    url: str
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    seconds: float = REGISTRY_SECONDS_MAX

    @property
    def shown(self) -> str:
        """Returns the URL without a password."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    def get(self, path: str) -> HttpAnswer:
        """Requests `path` below the URL.

        Raises:
            RegistryFailure: the server cannot be reached, is too slow, or sends too large an answer.
        """
        connection, context = self._connection()
        deadline = _RequestDeadline()
        timer = threading.Timer(self.seconds, deadline.expire)
        timer.daemon = True
        timer.start()
        try:
            self._connect(connection, context, deadline)
            base = urlsplit(self.url).path.rstrip("/")
            connection.request("GET", f"{base}{path}", headers=self._headers())
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
            if deadline.is_over:
                raise TimeoutError
            if response.length and len(body) <= ANSWER_BYTES_MAX:
                raise http.client.IncompleteRead(body, response.length)
        except (OSError, http.client.HTTPException, ValueError) as error:
            expired = isinstance(error, TimeoutError) or deadline.is_over
            raise RegistryFailure(self._reason(path, error, late=expired)) from None
        finally:
            timer.cancel()
            connection.close()
        if len(body) > ANSWER_BYTES_MAX:
            raise RegistryFailure(
                f"{self.shown}{path} answers more than {ANSWER_BYTES_MAX} bytes: is it a registry?"
            )
        artifact = response.headers.get("X-Registry-ArtifactType", "")
        return HttpAnswer(response.status, body, artifact)

    def _connection(self) -> tuple[http.client.HTTPConnection, ssl.SSLContext | None]:
        parts = urlsplit(self.url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise RegistryFailure(f"{self.shown} is no URL of a registry: {error}") from None
        if parts.scheme not in ("http", "https") or not host:
            raise RegistryFailure(
                f"{self.shown!r} is no URL of a registry: it begins with http:// or https://"
            )
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, port), None
        context = self.tls or ssl.create_default_context()
        return http.client.HTTPSConnection(host, port, context=context), context

    def _connect(
        self,
        connection: http.client.HTTPConnection,
        context: ssl.SSLContext | None,
        deadline: _RequestDeadline,
    ) -> None:
        """Connects, and places the socket under the deadline: the library does not expose the socket while it reads a
        response of unknown length. The TLS handshake is limited by the timeout of the socket.
        """
        address = connection.host, connection.port
        made = socket.create_connection(address, self.seconds)
        if context is not None:
            made = context.wrap_socket(made, server_hostname=connection.host)
        connection.sock = made
        deadline.watch(made)

    def _headers(self) -> Mapping[str, str]:
        parts = urlsplit(self.url)
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json, */*"}
        user = self.user if self.user is not None else unquote(parts.username or "")
        password = self.password if self.password is not None else unquote(parts.password or "")
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        elif user:
            headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
        return headers

    def _reason(self, path: str, error: Exception, *, late: bool) -> str:
        where = f"{self.shown}{path}"
        if late:
            return f"{where} has not answered within {self.seconds:g} s: see the registry"
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"{where}: its certificate is refused ({error.verify_message}): name its authority"
            )
        if isinstance(error, ConnectionRefusedError | socket.gaierror):
            return f"{where}: no registry listens there ({error}): start it, or correct the URL"
        return f"{where}: no answer of a registry ({type(error).__name__}: {str(error)[:200]})"


class _RequestDeadline:
    """The deadline of a request. A timer's thread enforces it: it shuts the socket down, so the request's thread reads
    the end of the stream.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._watched: socket.socket | None = None

    def watch(self, watched: socket.socket) -> None:
        """Places a socket under the deadline. Raises TimeoutError if the deadline has passed."""
        self._watched = watched
        if self.is_over:
            raise TimeoutError

    def expire(self) -> None:
        """Shuts the socket down, which wakes the request's thread. Called in the timer's thread."""
        self.is_over = True
        if self._watched is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._watched, socket.SHUT_RDWR)  # not `SSLSocket.shutdown`
