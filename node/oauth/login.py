"""Tokens for our own clients with OAUTHBEARER: fetched with client credentials, read from a file, or, for development,
made locally.

Source: RFC 6749, section 4.4; `ClientCredentialsJwtRetriever`, `FileJwtRetriever`,
`OAuthBearerUnsecuredLoginCallbackHandler` of Kafka.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from trimaran.node.oauth.web import BYTES_MAX, Web, WebError
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


def by_client_credentials(
    web: Web, url: str, client_id: str, client_secret: str, scope: str | None
) -> Retrieve:
    """Returns a function that requests tokens from the endpoint at `url`, as that client."""
    form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    basic = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
    }

    def retrieve() -> Fetched:
        try:
            answer = json.loads(web.post(url, headers, urlencode(form).encode()))
            token, seconds = answer["access_token"], answer.get("expires_in", 0)
            if not isinstance(token, str) or not token.isascii() or not token:
                raise ValueError("no token")
            return Fetched(token, float(seconds))
        except WebError as error:
            raise AuthenticationRefused(f"there is no token: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise AuthenticationRefused("the identity provider's answer holds no token") from error

    return retrieve


def from_file(path: Path) -> Retrieve:
    """Returns a function that reads the token each time, because the program that writes the file renews it."""

    def retrieve() -> Fetched:
        try:
            token = read_small_file(path, BYTES_MAX).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationRefused(f"there is no token in {path}: {error}") from error
        return Fetched(token)

    return retrieve


def unsecured(subject: str) -> Retrieve:
    """Returns a function that makes unsigned tokens, for nodes that accept such tokens."""

    def encoded(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    def retrieve() -> Fetched:
        now = time.time_ns() // 1_000_000_000
        claims = {"sub": subject, "iat": now, "exp": now + _UNSECURED_SECONDS}
        token = f"{encoded({'alg': 'none'})}.{encoded(claims)}."
        return Fetched(token, _UNSECURED_SECONDS)

    return retrieve
