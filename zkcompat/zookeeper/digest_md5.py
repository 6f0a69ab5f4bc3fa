"""SASL DIGEST-MD5 as ZooKeeper uses it. Pure except for its nonce.

Source: RFC 2831; ZooKeeper's servers name themselves `zookeeper/zk-sasl-md5` (`SaslServerPrincipal`, `SecurityUtils`).
The mechanism is weak by today's standards: use it inside TLS. Not implemented: integrity and confidentiality layers,
which ZooKeeper does not use; realms other than the first offered.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

DIGEST_URI = "zookeeper/zk-sasl-md5"
_FIRST = "00000001"  # the nonce count: each nonce is used in only one exchange
_DIRECTIVE = re.compile(r'\s*([a-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^",\s]*))\s*(?:,|$)')
CHALLENGE_BYTES_MAX = 2048  # RFC 2831, 2.1.1


class DigestRefusedError(Exception):
    """The server's challenge cannot be answered, or the server does not prove that it knows the password."""


@dataclass(frozen=True, slots=True)
class DigestCredentials:
    username: str
    password: str = field(repr=False)


class DigestMd5:
    """One exchange: a challenge is answered, then the server proves that it knows the password too."""

    def __init__(self, credentials: DigestCredentials, cnonce: str | None = None) -> None:
        self._credentials = credentials
        self._cnonce = cnonce or secrets.token_hex(16)
        self._expected: str | None = None

    def respond(self, challenge: bytes) -> bytes | None:
        """Returns the response; None when the exchange is done. Raises DigestRefusedError."""
        directives = _parse(challenge)
        if self._expected is not None:
            proof = directives.get("rspauth", "")
            if not hmac.compare_digest(proof.encode(), self._expected.encode()):
                raise DigestRefusedError("the server does not know the password")
            return None
        nonce = directives.get("nonce")
        if not nonce or directives.get("algorithm") != "md5-sess":
            raise DigestRefusedError("the server's challenge is none of DIGEST-MD5")
        if "auth" not in directives.get("qop", "auth").split(","):
            raise DigestRefusedError("the server asks for more than authentication")
        realm = directives.get("realm", "")
        self._expected = self._digest("", realm, nonce)
        members = {
            "username": _quoted(self._credentials.username),
            **({"realm": _quoted(realm)} if realm else {}),
            "nonce": _quoted(nonce),
            "cnonce": _quoted(self._cnonce),
            "nc": _FIRST,
            "qop": "auth",
            "digest-uri": _quoted(DIGEST_URI),
            "response": self._digest("AUTHENTICATE", realm, nonce),
            "charset": "utf-8",
        }
        return ",".join(f"{name}={value}" for name, value in members.items()).encode()

    def _digest(self, method: str, realm: str, nonce: str) -> str:
        """Returns the client's response, or the server's if the method is empty."""
        who = f"{self._credentials.username}:{realm}:{self._credentials.password}"
        start = _md5(who.encode()).digest() + f":{nonce}:{self._cnonce}".encode()
        what = _md5(f"{method}:{DIGEST_URI}".encode()).hexdigest()
        parts = (_md5(start).hexdigest(), nonce, _FIRST, self._cnonce, "auth", what)
        return _md5(":".join(parts).encode()).hexdigest()


def _md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _parse(challenge: bytes) -> dict[str, str]:
    if len(challenge) > CHALLENGE_BYTES_MAX:
        raise DigestRefusedError("the server's challenge is too long")
    text, at = challenge.decode("utf-8", "replace"), 0
    found: dict[str, str] = {}
    while at < len(text):
        match = _DIRECTIVE.match(text, at)
        if match is None:
            raise DigestRefusedError("the server's challenge is malformed")
        name, quoted, plain = match.groups()
        found.setdefault(name, re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain)
        at = match.end()
    return found
