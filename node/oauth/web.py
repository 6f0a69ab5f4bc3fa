"""One request to an identity provider, with bounds on time and size. Blocks, so it belongs into a thread.

Only https, and http to this machine; nothing is followed elsewhere, no file is opened by URL.
"""

from __future__ import annotations

import ipaddress
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import http.client

BYTES_MAX = 1 << 20
SECONDS_MAX = 10.0
_PIECE_BYTES = 65536


class WebError(Exception):
    """No usable answer, and why; holds nothing of what was sent or received."""


@dataclass(frozen=True, slots=True)
class Web:
    """How to reach a provider: `tls` None trusts the machine's authorities."""

    tls: ssl.SSLContext | None = None
    seconds_max: float = SECONDS_MAX
    bytes_max: int = BYTES_MAX

    def get(self, url: str) -> bytes:
        """The body of the answer. Raises WebError."""
        return self._ask("GET", url, {}, None)

    def post(self, url: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The body of the answer. Raises WebError."""
        return self._ask("POST", url, headers, body)

    def _ask(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        import http.client  # two megabytes, for the few nodes that ask anybody

        deadline = time.monotonic() + self.seconds_max
        connection, path = self._connection(url)
        try:
            connection.request(method, path, body, {"Accept": "application/json", **headers})
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise WebError(f"the identity provider answers with status {response.status}")
            return self._read(response, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise WebError(f"no answer from {connection.host}: {error}") from error
        finally:
            connection.close()

    def _connection(self, url: str) -> tuple[http.client.HTTPConnection, str]:
        import http.client

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

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        data = bytearray()
        while piece := response.read1(_PIECE_BYTES):
            data += piece
            if len(data) > self.bytes_max:
                raise WebError(f"the answer is larger than {self.bytes_max} bytes")
            if time.monotonic() > deadline:
                raise WebError(f"the answer takes longer than {self.seconds_max:g} s")
        return bytes(data)


def check_url(url: str) -> None:
    """Raises WebError unless it may be asked."""
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
