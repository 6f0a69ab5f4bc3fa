"""Assertions: signed tokens by which a node or a command proves its identity to an identity provider, without a secret
that the provider knows. An assertion is read from a file, or signed here with a private key.

Every file is read each time, because the program that writes it renews it.

Source: RFC 7523; KIP-1139; `FileAssertionCreator`, `DefaultAssertionCreator`, `LayeredAssertionJwtTemplate` of Kafka.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from trimaran.node.oauth.compact import decoded, encoded, encoded_bytes
from trimaran.node.oauth.keys import RSA_BITS_MIN
from trimaran.node.oauth.web import BYTES_MAX
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.later import imported_later
from trimaran.wire.security.small_files import read_small_file

if TYPE_CHECKING:
    import jwt
    from cryptography import exceptions
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
else:
    jwt = imported_later("jwt")
    exceptions = imported_later("cryptography.exceptions")
    serialization = imported_later("cryptography.hazmat.primitives.serialization")
    ec = imported_later("cryptography.hazmat.primitives.asymmetric.ec")
    rsa = imported_later("cryptography.hazmat.primitives.asymmetric.rsa")

_PART = r"[-_A-Za-z0-9]+"
_ASSERTION = re.compile(rf"({_PART})\.({_PART})\.{_PART}")
_KEYS = {
    "RS256": f"an RSA key of {RSA_BITS_MIN} bits or more",
    "ES256": "an EC key on the curve P-256",
}


class NoAssertion(Exception):
    """There is no assertion: the reason, and the fix. These texts may name files, but never show their contents."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f"{why}; {fix}")
        self.why, self.fix = why, fix


# Blocks. Raises NoAssertion.
MakeAssertion = Callable[[], str]


@dataclass(frozen=True, slots=True)
class AssertionFile:
    """A finished assertion, which another program renews."""

    path: Path

    def make(self) -> str:
        """Returns the assertion in the file; raises NoAssertion. Only the provider checks its signature and times."""
        try:
            text = _read(self.path).decode("ascii").strip()
            if (found := _ASSERTION.fullmatch(text)) is None:
                raise ValueError("no assertion")
            for part in found.groups():
                decoded(part)
        except (ValueError, RecursionError):
            raise NoAssertion(
                f"{self.path} holds no assertion",
                "write a signed JWT into it, HEADER.CLAIMS.SIGNATURE, and replace the file as a whole",
            ) from None
        return text


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key in a PEM file, for one algorithm of JWS: RS256 or ES256."""

    path: Path
    algorithm: str
    passphrase: str | None = field(default=None, repr=False)

    def load(self) -> Any:
        """Returns the private key of `cryptography`. Raises NoAssertion."""
        data, has_passphrase = _read(self.path), self.passphrase is not None
        try:
            key: Any = serialization.load_pem_private_key(
                data, self.passphrase.encode() if self.passphrase is not None else None
            )
        except TypeError:  # a passphrase is missing, or superfluous
            if has_passphrase:
                self._fail("the key in {} is not encrypted", "leave out the passphrase")
            self._fail("the key in {} is encrypted", "set its passphrase")
        except (ValueError, exceptions.UnsupportedAlgorithm):
            opened = " that the passphrase opens" if has_passphrase else ""
            self._fail(f"{{}} holds no private key in PEM{opened}", "write {} into it")
        if not self._fits(key):
            self._fail("the key in {} does not fit " + self.algorithm, "use {}")
        return key

    def sign(self, message: str) -> str:
        """Returns the signature of the message in base64url. Raises NoAssertion."""
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        return encoded_bytes(algorithm.sign(message.encode(), self.load()))

    def _fits(self, key: Any) -> bool:
        if self.algorithm == "RS256":
            return isinstance(key, rsa.RSAPrivateKey) and key.key_size >= RSA_BITS_MIN
        return isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == "secp256r1"

    def _fail(self, why: str, fix: str) -> NoReturn:
        raise NoAssertion(why.format(self.path), fix.format(_KEYS[self.algorithm])) from None


@dataclass(frozen=True, slots=True)
class Template:
    """Claims and headers from a JSON file, `{"header": {…}, "payload": {…}}`; either may be missing."""

    path: Path

    def read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the headers and the claims. Raises NoAssertion."""
        try:
            found = json.loads(
                _read(self.path), parse_constant=_refuse_constant, parse_float=_finite
            )
            header, claims = _object(found, "header"), _object(found, "payload")
        except (ValueError, AttributeError, RecursionError):
            raise NoAssertion(
                f"{self.path} is no template of assertions",
                'write JSON into it: {"header": {"kid": "…"}, "payload": {"aud": "…"}}',
            ) from None
        return header, claims


@dataclass(frozen=True, slots=True)
class SignedAssertions:
    """Creates and signs assertions. The template's claims replace `claims`, and the claims of time replace both.

    Attributes:
        lifetime_seconds: the time from now to `exp`.
        backdated_seconds: the time from `nbf` to now.
        has_id: whether each assertion has its own `jti`.
    """

    key: SigningKey
    claims: Mapping[str, str]
    template: Template | None = None
    lifetime_seconds: int = 300
    backdated_seconds: int = 60
    has_id: bool = False
    now: Callable[[], int] = now_ms

    def make(self) -> str:
        """Returns a new assertion. Raises NoAssertion."""
        header, claims = self.template.read() if self.template is not None else ({}, {})
        now = self.now() // 1000
        times = {
            "iat": now,
            "exp": now + self.lifetime_seconds,
            "nbf": now - self.backdated_seconds,
        }
        own_id = {"jti": str(uuid.uuid4())} if self.has_id else {}
        parts = (
            {**header, "alg": self.key.algorithm, "typ": "JWT"},
            {**self.claims, **claims, **times, **own_id},
        )
        try:
            signed = ".".join(encoded(part) for part in parts)
        except RecursionError:
            raise NoAssertion(
                "the claims of the template are nested too deeply", "write flatter claims"
            ) from None
        return f"{signed}.{self.key.sign(signed)}"


def _read(path: Path) -> bytes:
    """Returns the content of a file. Raises NoAssertion."""
    try:
        return read_small_file(path, BYTES_MAX)
    except OSError as error:
        why: object = error.strerror
    except ValueError as error:  # a path that no file can have
        why = error
    raise NoAssertion(f"{path}: {why}", "name a regular file that this process may read")


def _object(template: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the member of the template, empty if it is missing. Raises ValueError or AttributeError."""
    found = template.get(name)
    if found is not None and not isinstance(found, dict):
        raise ValueError("no object")
    return found or {}


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError("JSON has no infinite numbers")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
