"""The client's side of SCRAM: with a password, or with the id and HMAC of a delegation token.

Source: RFC 5802; `ScramSaslClient` of Kafka, KIP-48 for tokens. The number of iterations that a node requests is
checked before any work is done (CVE-2026-10143).
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.security.sasl.exchange import Tokens
from trimaran.wire.security.sasl.scram import (
    BASE64,
    EXTENSIONS,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    PRINTABLE,
    SCRAM_DIGESTS,
    TOKEN_EXTENSION,
    bytes_of,
    credential_of_salted,
    escaped_name,
    new_nonce,
    salted_password,
    text_of,
    xor,
)

_SERVER_FIRST = re.compile(
    rf"r=(?P<nonce>{PRINTABLE}),s=(?P<salt>{BASE64}),i=(?P<iterations>[0-9]{{1,9}}){EXTENSIONS}"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>[^\x00,=]+)|v=(?P<signature>{BASE64}))(?:,.*)?")


@dataclass(frozen=True, slots=True)
class ScramCredentials:
    """The credentials of a client. `by_token`: name and password are a delegation token's id and its HMAC in base64."""

    mechanism: str
    username: str
    password: str
    by_token: bool = False
    make_nonce: Callable[[], str] = field(default=new_nonce, compare=False, repr=False)
    # The last salted password: a node requests the same for all connections of a user, and it costs milliseconds.
    _salted: dict[tuple[bytes, int], bytes] = field(default_factory=dict, compare=False, repr=False)

    blocks = False

    def __repr__(self) -> str:
        return f"ScramCredentials({self.mechanism!r}, {self.username!r})"

    def exchange(self, _host: str = "") -> Tokens:
        nonce = self.make_nonce()
        extension = f",{TOKEN_EXTENSION}=true" if self.by_token else ""
        bare = f"n={escaped_name(self.username)},r={nonce}{extension}"
        first = yield f"n,,{bare}".encode()
        agreed, salt, iterations = self._challenge(first, nonce)
        digest = SCRAM_DIGESTS[self.mechanism]
        salted = self._salt(digest, salt, iterations)
        credential = credential_of_salted(digest, salted, salt, iterations)
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={agreed}"
        transcript = f"{bare},{first.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", digest)
        proof = xor(client_key, hmac.digest(credential.stored_key, transcript, digest))
        final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
        self._check_signature(final, hmac.digest(credential.server_key, transcript, digest))

    def _challenge(self, token: bytes, nonce: str) -> tuple[str, bytes, int]:
        text = text_of(token)
        found = None if text is None else _SERVER_FIRST.fullmatch(text)
        salt = None if found is None else bytes_of(found["salt"])
        if found is None or not salt:
            raise AuthenticationRefused(f"the node gives no first answer of {self.mechanism}")
        agreed, iterations = found["nonce"], int(found["iterations"])
        if not agreed.startswith(nonce) or agreed == nonce:
            raise AuthenticationRefused("the node answers with another nonce than ours")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationRefused(
                f"the node asks for {iterations} iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are taken"
            )
        return agreed, salt, iterations

    def _salt(self, digest: str, salt: bytes, iterations: int) -> bytes:
        known = self._salted.get((salt, iterations))
        if known is None:
            known = salted_password(digest, self.password, salt, iterations)
            self._salted.clear()
            self._salted[salt, iterations] = known
        return known

    def _check_signature(self, token: bytes, expected: bytes) -> None:
        text = text_of(token)
        found = None if text is None else _SERVER_FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationRefused(f"the node gives no final answer of {self.mechanism}")
        if found["error"] is not None:
            raise AuthenticationRefused(f"the node says {found['error']!a}")
        if not hmac.compare_digest(bytes_of(found["signature"]) or b"", expected):
            raise AuthenticationRefused(
                "the node does not know our password: it is not the one we want"
            )
