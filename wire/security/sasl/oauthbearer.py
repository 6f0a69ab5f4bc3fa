r"""SASL OAUTHBEARER: its messages, from both sides. See `trimaran.node.oauth` for the checks of tokens.

    client   n,[a=NAME],^A auth=Bearer TOKEN^A [KEY=VALUE^A …] ^A
    server   nothing, or {"status":"invalid_token"}; then the client sends ^A, and fails

Source: RFC 7628, `OAuthBearerSaslServer`, `OAuthBearerClientInitialResponse` of Kafka, KIP-255, KIP-342 (extensions,
which are parsed and ignored).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done, Tokens
from trimaran.wire.security.sasl.scram import unescaped_name

MECHANISM = "OAUTHBEARER"
# Honest tokens are a few kilobytes.
TOKEN_CHARS_MAX = 24 << 10
_END = b"\x01"
_REFUSED = b'{"status":"invalid_token"}'
_INITIAL = re.compile(
    r"n,(?:a=(?P<name>(?:[^\x00=,]|=2C|=3D)+))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_AUTH = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +(?P<token>[-_~+/.A-Za-z0-9]+=*)")


class TokenRefused(Exception):
    """A token is refused. The reason is for our log; the client is only informed of the refusal."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A valid token: its principal, and its remaining lifetime."""

    subject: str
    lifetime_ms: int


# A check of tokens; raises TokenRefused.
Validate = Callable[[str], BearerToken]


class OAuthBearerExchange:
    """The server's side of one login."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused = False

    def evaluate(self, token: bytes) -> Challenge | Done:
        """Evaluates the client's token. Raises AuthenticationFailed."""
        if self._refused:
            raise AuthenticationFailed(_REFUSED.decode())
        name, bearer = _parse(token)
        try:
            valid = self._validate(bearer)
        except TokenRefused:
            self._refused = True
            return Challenge(_REFUSED)
        if name not in ("", valid.subject):
            raise AuthenticationFailed("the authorization id is not the subject of the token")
        return Done(Principal(valid.subject), b"", valid.lifetime_ms)


def _parse(token: bytes) -> tuple[str, str]:
    """Returns the authorization id, empty if absent, and the bearer token."""
    try:
        found = _INITIAL.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise AuthenticationFailed(f"the token is no first message of {MECHANISM}")
    pairs = [pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair]
    values = [value for key, value in pairs if key == "auth"]
    auth = _AUTH.fullmatch(values[0]) if len(values) == 1 else None
    if auth is None or len(auth["token"]) > TOKEN_CHARS_MAX:
        raise AuthenticationFailed(f"{MECHANISM} wants one bearer token")
    return unescaped_name(found["name"] or ""), auth["token"]


def client_tokens(bearer: str) -> Tokens:
    """Yields the client's messages of one login with the token.

    Raises:
        AuthenticationRefused: the node's answer does not follow the mechanism.
    """
    response = yield b"n,,\x01auth=Bearer " + bearer.encode() + b"\x01\x01"
    if response:
        yield _END  # the node then answers with its error
        raise AuthenticationRefused(f"the node refuses the token: {response[:200]!a}")
