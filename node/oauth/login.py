"""Tokens for nodes and commands that log in with OAUTHBEARER: requested (`trimaran.node.oauth.grants`), read from a
file, or, for development, made locally.

Source: `FileJwtRetriever`, `OAuthBearerUnsecuredLoginCallbackHandler` of Kafka.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trimaran.node.oauth.compact import encoded
from trimaran.node.oauth.web import BYTES_MAX
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.sasl.exchange import Tokens
from trimaran.wire.security.sasl.oauthbearer import MECHANISM, client_tokens
from trimaran.wire.security.small_files import read_small_file

# The fraction of a token's lifetime after which another one is fetched (`sasl.login.refresh.window.factor`).
_FRESH = 0.8
_UNSECURED_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Fetched:
    """A token and its lifetime in seconds; 0: the lifetime is unknown, so the token is not cached."""

    token: str
    seconds: float = 0.0


# Blocks. Raises AuthenticationRefused.
Retrieve = Callable[[], Fetched]


@dataclass(slots=True, eq=False)
class BearerCredentials:
    """The credentials of a client; a token is used for all connections until it nears its expiry."""

    retrieve: Retrieve
    _token: str = ""
    _fresh_until: float = -float("inf")
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    mechanism = MECHANISM
    blocks = True

    def __repr__(self) -> str:
        return "BearerCredentials()"

    def _prepare(self) -> None:
        """Gets a token, unless there is a fresh one. Raises AuthenticationRefused."""
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                fetched = self.retrieve()
                self._token = fetched.token
                self._fresh_until = time.monotonic() + fetched.seconds * _FRESH

    def exchange(self, _host: str = "") -> Tokens:
        self._prepare()
        return client_tokens(self._token)


def from_file(path: Path) -> Retrieve:
    """Returns a function that reads the token each time, because the program that writes the file renews it."""

    def retrieve() -> Fetched:
        try:
            token = read_small_file(path, BYTES_MAX).decode("ascii").strip()
        except (OSError, ValueError) as error:  # ValueError: not ASCII, or not a valid path
            raise AuthenticationRefused(f"there is no token in {path}: {error}") from error
        return Fetched(token)

    return retrieve


def unsecured(subject: str) -> Retrieve:
    """Returns a function that makes unsigned tokens, for nodes that accept such tokens."""

    def retrieve() -> Fetched:
        now = time.time_ns() // 1_000_000_000
        claims = {"sub": subject, "iat": now, "exp": now + _UNSECURED_SECONDS}
        token = f"{encoded({'alg': 'none'})}.{encoded(claims)}."
        return Fetched(token, _UNSECURED_SECONDS)

    return retrieve
