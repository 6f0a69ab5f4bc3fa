"""One bounded HTTP GET: a deadline for all of it, a limit of the answer, no redirects."""

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
"""An answer of a registry; a schema of a megabyte is rare."""
REGISTRY_SECONDS_MAX = 15.0
"""The time of a request, from the connection to the last byte."""


@dataclass(frozen=True)
class HttpAnswer:
    """`artifact_type` is Apicurio's header, or empty."""

    status: int
    body: bytes
    artifact_type: str


@dataclass(frozen=True)
class HttpServer:
    """A server by its URL, with what it needs of its clients.

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
            RegistryFailure: the server cannot be reached, is too slow, or answers too much.
        """
        connection = self._connection()
        late = threading.Event()
        timer = threading.Timer(self.seconds, _end, [connection, late])
        timer.daemon = True
        timer.start()
        try:
            base = urlsplit(self.url).path.rstrip("/")
            connection.request("GET", f"{base}{path}", headers=self._headers())
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
            if late.is_set():
                raise TimeoutError
            if response.length and len(body) <= ANSWER_BYTES_MAX:
                raise http.client.IncompleteRead(body, response.length)
        except (OSError, http.client.HTTPException, ValueError) as error:
            expired = isinstance(error, TimeoutError) or late.is_set()
            raise RegistryFailure(self._told(path, error, late=expired)) from None
        finally:
            timer.cancel()
            connection.close()
        if len(body) > ANSWER_BYTES_MAX:
            raise RegistryFailure(
                f"{self.shown}{path} answers more than {ANSWER_BYTES_MAX} bytes: is it a registry?"
            )
        artifact = response.headers.get("X-Registry-ArtifactType", "")
        return HttpAnswer(response.status, body, artifact)

    def _connection(self) -> http.client.HTTPConnection:
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
            return http.client.HTTPConnection(host, port, timeout=self.seconds)
        return http.client.HTTPSConnection(host, port, timeout=self.seconds, context=self.tls)

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

    def _told(self, path: str, error: Exception, *, late: bool) -> str:
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


def _end(connection: http.client.HTTPConnection, late: threading.Event) -> None:
    """Ends the waits of another thread for this connection, which then seems to end early."""
    late.set()
    if (open_socket := connection.sock) is not None:
        with suppress(OSError):
            open_socket.shutdown(socket.SHUT_RDWR)
