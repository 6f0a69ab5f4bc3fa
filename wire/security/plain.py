"""SASL PLAIN. The token is `[authzid] NUL authcid NUL passwd`, UTF-8. Source: RFC 4616, `PlainSaslServer` of Kafka."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from wire.security.exchange import AuthenticationFailed, Done, Tokens
from wire.security.principal import Principal

MECHANISM = "PLAIN"
# RFC 4616 gives names and passwords 255 characters; Kafka bounds the token alone.
_REFUSED = "invalid credentials with SASL mechanism PLAIN"


@dataclass(frozen=True, slots=True)
class PlainCredentials:
    """A client's."""

    username: str
    password: str = field(repr=False)

    mechanism = MECHANISM
    blocks = False

    def prepare(self) -> None:
        """There is nothing to fetch."""

    def exchange(self) -> Tokens:
        yield b"\0".join((b"", self.username.encode(), self.password.encode()))


class PlainExchange:
    """One authentication: one token, no challenge. `passwords` by user name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords

    def evaluate(self, token: bytes) -> Done:
        """Raises AuthenticationFailed; an unknown user costs the same time as a wrong password."""
        try:
            parts = token.decode().split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("the SASL PLAIN token is not UTF-8") from None
        if len(parts) != 3:
            raise AuthenticationFailed(f"a SASL PLAIN token has 3 parts, this one {len(parts)}")
        authorization_id, username, password = parts
        if not username or not password:
            raise AuthenticationFailed("the SASL PLAIN token lacks a user name or a password")
        expected = self._passwords.get(username)
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None or not same:
            raise AuthenticationFailed(_REFUSED)
        if authorization_id not in ("", username):
            raise AuthenticationFailed("the authorization id is not the user name")
        return Done(Principal(username), b"")
