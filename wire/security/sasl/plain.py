"""SASL PLAIN. The token is `[authzid] NUL authcid NUL passwd`, UTF-8. Source: RFC 4616, `PlainSaslServer` of Kafka."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Done, Tokens
from trimaran.wire.text import events

log = logging.getLogger(__name__)

MECHANISM = "PLAIN"
# RFC 4616 limits names and passwords to 255 characters; Kafka limits only the token.
_REFUSED = "invalid credentials with SASL mechanism PLAIN"


@dataclass(frozen=True, slots=True)
class PlainCredentials:
    """The credentials of a client."""

    username: str
    password: str = field(repr=False)

    mechanism = MECHANISM
    blocks = False

    def exchange(self, _host: str = "") -> Tokens:
        yield b"\0".join((b"", self.username.encode(), self.password.encode()))


# A custom check of name and password; it may block. Any result except True is a refusal.
AskForPassword = Callable[[str, str], object]


class PlainExchange:
    """One authentication: one token, no challenge. `passwords` is keyed by user name; `ask`, if given, checks other
    users.
    """

    def __init__(self, passwords: Mapping[str, str], ask: AskForPassword | None = None) -> None:
        self._passwords = passwords
        self._ask = ask

    def evaluate(self, token: bytes) -> Done:
        """Checks name and password. Raises AuthenticationFailed; an unknown user takes the same time as a wrong
        password.
        """
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
        if expected is None:
            same = self._asked(username, password)
        if not same:
            raise AuthenticationFailed(_REFUSED)
        if authorization_id not in ("", username):
            raise AuthenticationFailed("the authorization id is not the user name")
        return Done(Principal(username), b"")

    def _asked(self, username: str, password: str) -> bool:
        if self._ask is None:
            return False
        try:
            return self._ask(username, password) is True
        except Exception as error:  # noqa: BLE001 - it is not ours, and nobody gets in by its mistakes
            events.LOGIN_CALLBACK_FAILED.log(log, error=type(error).__name__)
            return False
