"""The user who logs in on a connection that passes through a proxy, as the requests of the login name it.

The proxy cannot check a password. But a broker ends the connection of a login that fails, so later requests on it are
those of this user. Source: RFC 4616 (PLAIN), RFC 5802 (SCRAM).
"""

from __future__ import annotations

import re
from typing import Any

from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message

# Requests that a login consists of.
LOGIN_APIS = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
# The longest token that is read: names are short.
_TOKEN_BYTES_MAX = 8192
_SCRAM_NAME = re.compile(r"[ny],[^,]*,n=([^,]+),r=")


class SeenLogin:
    """The login of one connection. `principal` is empty while no user is known; a later login replaces the user."""

    def __init__(self) -> None:
        self.principal = ""
        self._mechanism = ""

    def see_request(self, request: Message) -> None:
        """Reads a request of `LOGIN_APIS`."""
        body: Any = request
        if request.KEY == ApiKey.SASL_HANDSHAKE:
            self._mechanism = body.mechanism
        else:
            self.see_token(body.auth_bytes)

    def see_token(self, token: bytes | memoryview) -> None:
        """Reads a token of the client; only the first one of a login names the user."""
        name = _user_of(self._mechanism, bytes(token[:_TOKEN_BYTES_MAX]))
        if name:
            self.principal = f"User:{name}"


def _user_of(mechanism: str, token: bytes) -> str:
    text = token.decode("utf-8", "replace")
    if mechanism == "PLAIN":
        parts = text.split("\0")
        return parts[1] if len(parts) == 3 else ""
    if mechanism.startswith("SCRAM-"):
        found = _SCRAM_NAME.match(text)
        return found[1].replace("=2C", ",").replace("=3D", "=") if found else ""
    return ""
