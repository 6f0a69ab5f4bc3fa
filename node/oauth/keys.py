"""The public keys of an identity provider (JWKS), read from a file or fetched, and refreshed.

A failed read keeps the previous keys. A token with an unknown key id is refused, and the keys are fetched again, at
most once in `SECONDS_BETWEEN_MISSES`. Only public keys are accepted: with a smuggled symmetric key, an attacker could
sign tokens (RFC 8725, section 3). Source: RFC 7517; `RefreshingHttpsJwks`, `JwksFileVerificationKeyResolver` of Kafka,
KIP-768.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from trimaran.node import events
from trimaran.node.oauth.web import BYTES_MAX, Web, WebError, check_url
from trimaran.wire.later import imported_later
from trimaran.wire.security.small_files import read_small_file

if TYPE_CHECKING:
    import jwt
else:
    jwt = imported_later("jwt")

log = logging.getLogger(__name__)

KEYS_MAX = 128
SECONDS_BETWEEN_MISSES = 10.0
_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# The algorithms of a key without its own, by kind and curve: never a symmetric algorithm, and never `none`.
_ALGORITHMS: dict[tuple[str, str | None], tuple[str, ...]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
RSA_BITS_MIN = 2048


class KeySetError(Exception):
    """There are no keys for the validation of tokens; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of `cryptography`, and the signature algorithms with which it may be used."""

    key: Any
    algorithms: tuple[str, ...]


Keys = dict[str | None, VerificationKey]


class KeySet:
    """The keys at one URL; usable in any thread."""

    def __init__(
        self,
        url: str,
        web: Web,
        *,
        refresh_seconds: float = 3600.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._web = web
        self._refresh_seconds = refresh_seconds
        self._now = now
        self._keys: Keys = {}
        self._read_at = -float("inf")
        self._tried_at = -float("inf")
        self._refreshing = threading.Lock()

    def load(self) -> None:
        """Reads the keys now. Blocks. Raises KeySetError."""
        self._tried_at = self._now()
        keys = parse_keys(_read(self.url, self._web))
        self._keys, self._read_at = keys, self._now()

    def key(self, key_id: str | None) -> VerificationKey | None:
        """Returns the key with that id; without an id the only key, if there is exactly one. Expired keys and misses
        trigger a later read.
        """
        found = self._keys.get(key_id)
        if key_id is None and found is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        stale = self._now() - self._read_at >= self._refresh_seconds
        if (stale or found is None) and self._may_try():
            threading.Thread(target=self._refresh, name="jwks", daemon=True).start()
        return found

    def _may_try(self) -> bool:
        if self._now() - self._tried_at < SECONDS_BETWEEN_MISSES:
            return False
        self._tried_at = self._now()
        return True

    def _refresh(self) -> None:
        if not self._refreshing.acquire(blocking=False):
            return
        try:
            self.load()
        except KeySetError as error:
            events.OAUTH_KEYS_KEPT.log(log, url=self.url, error=error)
        finally:
            self._refreshing.release()


def is_file(url: str) -> bool:
    """Returns whether the keys at a URL are in a file of this machine."""
    try:
        return urlsplit(url).scheme == "file"
    except ValueError:
        return False


def check_keys_url(url: str) -> None:
    """Raises KeySetError unless the URL is allowed as a source of keys."""
    if is_file(url):
        return
    try:
        check_url(url)
    except WebError as error:
        raise KeySetError(str(error)) from None


def _read(url: str, web: Web) -> bytes:
    if not is_file(url):
        try:
            return web.get(url)
        except WebError as error:
            raise KeySetError(str(error)) from error
    try:
        return read_small_file(unquote(urlsplit(url).path), BYTES_MAX)
    except OSError as error:
        raise KeySetError(error.strerror or str(error)) from error


def parse_keys(data: bytes) -> Keys:
    """Returns the keys of a JWKS that can verify signatures, by id.

    Raises:
        KeySetError: the data is not a JWKS, or has no such key or too many.
    """
    try:
        members = json.loads(data)["keys"]
        entries = [member for member in members if isinstance(member, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise KeySetError("it is not a JSON Web Key Set") from None
    if len(members) > KEYS_MAX:
        raise KeySetError(f"it holds more than {KEYS_MAX} keys")
    keys: Keys = {}
    for entry in entries:
        key_id, key = entry.get("kid"), _key(entry)
        if key is None or not (key_id is None or isinstance(key_id, str)):
            continue
        if key_id in keys:
            raise KeySetError("two keys have the same id")
        keys[key_id] = key
    if not keys:
        raise KeySetError("it has no public key that signs tokens")
    return keys


def _key(entry: dict[str, Any]) -> VerificationKey | None:
    """Returns the key; None for a kind of key that is not accepted."""
    kind, curve = entry.get("kty"), entry.get("crv")
    if not isinstance(kind, str) or not (curve is None or isinstance(curve, str)):
        return None
    possible = _ALGORITHMS.get((kind, None if kind == "RSA" else curve))
    if possible is None or entry.get("use", "sig") != "sig" or "d" in entry:
        return None
    named = entry.get("alg")
    algorithms = (
        possible
        if named is None
        else tuple(algorithm for algorithm in possible if algorithm == named)
    )
    if not algorithms:
        return None
    try:
        key = jwt.PyJWK(entry, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    return VerificationKey(key, algorithms)
