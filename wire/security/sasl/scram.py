"""SCRAM-SHA-256 and SCRAM-SHA-512: keys, messages, and the server's side. See `scram_client` for the client's side.

A server has two keys that do not reveal the password, and never sees the password itself. An unknown user gets the same
responses as a known one, with a made-up salt, and fails at the same step as a wrong password, after the same work.
Source: RFC 5802, RFC 7677; `ScramSaslServer`, `ScramMessages`, `ScramFormatter` of Kafka, KIP-84. This is stricter than
Kafka: the nonce must be identical, and the channel binding must repeat that of the first message (`docs/security.md`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.exchange import AuthenticationFailed, Challenge, Done

# The mechanisms by their numbers in requests and records (Kafka's `ScramMechanism`).
SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
SCRAM_NUMBERS = {name: number for number, name in SCRAM_MECHANISMS.items()}
# Mechanism → its hash.
SCRAM_DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# The bounds of iterations, as in Kafka: fewer iterations make guessing easy, more would let one peer slow down the
# other.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
# Names, nonces and salts are short; a message is matched by patterns and echoed in part.
MESSAGE_BYTES_MAX = 8192
# The extension that declares that name and password are the id and HMAC of a delegation token (KIP-48).
TOKEN_EXTENSION = "tokenauth"
_NONCE_BYTES = 24

_SASLNAME = r"(?:[^\x00=,]|=2C|=3D)+"
# Parts of the grammar of messages (RFC 5802, section 7), for both sides.
PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
EXTENSIONS = r"(?:,[A-Za-z]=[^\x00,]+)*"
BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>[ny],(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASLNAME}),r=(?P<nonce>{PRINTABLE})(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>{BASE64}),r=(?P<nonce>{PRINTABLE}){EXTENSIONS}),p=(?P<proof>{BASE64})"
)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A server's keys for a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramAccount:
    """The account of a credential. If `principal` is None, the credential is made up and no proof is accepted."""

    credential: ScramCredential
    principal: Principal | None
    lifetime_ms: int | None = None


# A function from mechanism, name and whether the name is the id of a delegation token to the account.
FindAccount = Callable[[str, str, bool], ScramAccount]


def salted_password(digest: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Returns `Hi` of RFC 5802; the password is not normalized, as in Kafka. It takes a millisecond for 4096
    iterations.
    """
    return hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)


def credential_of_salted(
    digest: str, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Returns the stored keys of a salted password (RFC 5802, section 3)."""
    client_key = hmac.digest(salted, b"Client Key", digest)
    stored_key = hashlib.new(digest, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", digest)
    return ScramCredential(salt, stored_key, server_key, iterations)


def credential_of(digest: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
    """Returns the stored keys of a password."""
    salted = salted_password(digest, password, salt, iterations)
    return credential_of_salted(digest, salted, salt, iterations)


def made_up_credential(
    digest: str, secret: bytes, name: str, like: ScramCredential
) -> ScramCredential:
    """Returns a credential for an unknown name: the same each time, with a salt and iterations like those of `like`.

    Only the nodes know `secret`, and all nodes use the same one, so that responses do not reveal that a salt is made
    up.
    """
    noise = hmac.digest(secret, name.encode(), "sha512")
    salt = (noise * (1 + len(like.salt) // len(noise)))[: len(like.salt)]
    if like.salt.isalnum():  # the alphabet of salts made by Kafka's own tools
        letters = b"0123456789abcdefghijklmnopqrstuvwxyz"
        salt = bytes(letters[byte % len(letters)] for byte in salt)
    size = hashlib.new(digest).digest_size
    return ScramCredential(salt, bytes(size), bytes(size), like.iterations)


def escaped_name(name: str) -> str:
    """Returns the name as a `saslname` of RFC 5802."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped_name(text: str) -> str:
    """Returns the name in a `saslname` that matched the pattern."""
    return text.replace("=2C", ",").replace("=3D", "=")


def text_of(message: bytes) -> str | None:
    """Returns the text of a message; None if it is too long or not UTF-8."""
    if len(message) > MESSAGE_BYTES_MAX:
        return None
    try:
        return message.decode()
    except UnicodeDecodeError:
        return None


def bytes_of(encoded: str) -> bytes | None:
    """Returns the bytes of base64 text, which must be in canonical form."""
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return None


def xor(one: bytes, other: bytes) -> bytes:
    """Returns the exclusive or of byte strings of equal length."""
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def new_nonce() -> str:
    """Returns a printable, unpredictable nonce."""
    return secrets.token_urlsafe(_NONCE_BYTES)


@dataclass(frozen=True, slots=True)
class _Begun:
    """The state between the first and the second step."""

    account: ScramAccount
    gs2_header: bytes
    nonce: str
    transcript: str


class ScramExchange:
    """The server's side of one login: two tokens, one challenge."""

    def __init__(
        self, mechanism: str, find: FindAccount, make_nonce: Callable[[], str] = new_nonce
    ) -> None:
        self._mechanism = mechanism
        self._digest = SCRAM_DIGESTS[mechanism]
        self._find = find
        self._make_nonce = make_nonce
        self._begun: _Begun | None = None

    def evaluate(self, token: bytes) -> Challenge | Done:
        """Evaluates a token. Raises AuthenticationFailed, with the same text whether name or password is wrong."""
        text = text_of(token)
        if text is None:
            raise AuthenticationFailed(f"the token is no message of {self._mechanism}")
        if self._begun is None:
            return self._begin(text)
        return self._finish(self._begun, text)

    def _begin(self, text: str) -> Challenge:
        found = _CLIENT_FIRST.fullmatch(text)
        if found is None:
            raise AuthenticationFailed(f"the token is no first message of {self._mechanism}")
        name = unescaped_name(found["name"])
        if found["authzid"] not in (None, found["name"]):
            raise AuthenticationFailed("the authorization id is not the user name")
        extensions = dict(
            extension.split("=", 1) for extension in found["extensions"].split(",") if extension
        )
        by_token = extensions.get(TOKEN_EXTENSION, "").lower() == "true"
        account = self._find(self._mechanism, name, by_token)
        nonce = found["nonce"] + self._make_nonce()
        credential = account.credential
        salt = base64.b64encode(credential.salt).decode()
        challenge = f"r={nonce},s={salt},i={credential.iterations}"
        transcript = f"{found['bare']},{challenge},"
        self._begun = _Begun(account, found["gs2"].encode(), nonce, transcript)
        return Challenge(challenge.encode())

    def _finish(self, begun: _Begun, text: str) -> Done:
        found = _CLIENT_FINAL.fullmatch(text)
        if found is None:
            raise AuthenticationFailed(f"the token is no final message of {self._mechanism}")
        if bytes_of(found["binding"]) != begun.gs2_header:
            raise AuthenticationFailed("the channel binding is not what was said first")
        if found["nonce"] != begun.nonce:
            raise AuthenticationFailed("the nonce is not what was agreed on")
        credential, principal = begun.account.credential, begun.account.principal
        transcript = (begun.transcript + found["bare"]).encode()
        proven = self._is_proven(credential, transcript, bytes_of(found["proof"]))
        signature = hmac.digest(credential.server_key, transcript, self._digest)
        if principal is None or not proven:
            raise AuthenticationFailed(f"invalid credentials with SASL mechanism {self._mechanism}")
        self._begun = None
        final = b"v=" + base64.b64encode(signature)
        return Done(principal, final, begun.account.lifetime_ms)

    def _is_proven(
        self, credential: ScramCredential, transcript: bytes, proof: bytes | None
    ) -> bool:
        signature = hmac.digest(credential.stored_key, transcript, self._digest)
        if proof is None or len(proof) != len(signature):
            return False
        client_key = xor(signature, proof)
        stored_key = hashlib.new(self._digest, client_key).digest()
        return hmac.compare_digest(stored_key, credential.stored_key)
