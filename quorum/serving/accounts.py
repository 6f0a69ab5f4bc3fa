"""Accounts for SCRAM logins: the users and delegation tokens of the newest image.

The credential of an unknown name is derived from `delegation.token.secret.key`, which all nodes share. Like a real
salt, its salt is therefore the same on every node and at any time. Without that key each node derives its own. It is
never derived from a user's keys, because any client can see it before a login and could test passwords against it
offline.

Source: `CredentialCache`, `DelegationTokenCache`, `ScramServerCallbackHandler` of Kafka, KIP-84, KIP-48. Stricter than
Kafka: an expired token does not allow a login, even before it is removed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Callable
from functools import lru_cache

from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage, ScramKey
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.metadata.tokens import split_principal, token_hmac
from trimaran.wire.records.security import DelegationTokenRecord, UserScramCredentialRecord
from trimaran.wire.security.principal import Principal
from trimaran.wire.security.sasl.scram import (
    ITERATIONS_MIN,
    SCRAM_DIGESTS,
    SCRAM_NUMBERS,
    ScramAccount,
    ScramCredential,
    credential_of,
    made_up_credential,
)

_SALT_BYTES = 24
# Every client can see salts, which are derived from the secret. Each offline guess of the secret costs as much as this
# derivation, 50 ms.
_STRETCH_ITERATIONS = 100_000
# The model for the credentials of unknown names while there are no users: Kafka's tools generate salts of 26 letters.
_LIKE_KAFKA = ScramCredential(b"a" * 26, bytes(1), bytes(1), ITERATIONS_MIN)
# The first login with a token costs a millisecond or two; a fleet of clients shares few tokens.
_TOKENS_REMEMBERED = 4096


class Accounts:
    """The accounts of a node, a `Publisher`. `find` is a `FindAccount` for any thread."""

    def __init__(self, token_secret: str | None = None, now: Callable[[], int] = now_ms) -> None:
        """Creates accounts. `token_secret`: `delegation.token.secret.key`; without it there are no tokens."""
        self._token_secret = token_secret or ""
        self._now_ms = now
        self._scram, self._tokens = EMPTY.scram, EMPTY.tokens
        self._examples: dict[int, ScramCredential] = {}
        self._salts_of = _stretched(self._token_secret)

    def publish(self, _delta: MetadataDelta, image: MetadataImage, _manifest: Manifest) -> None:
        self.use_image(image)

    def use_image(self, image: MetadataImage) -> None:
        """Uses the users and tokens of `image` from now on."""
        if image.scram is not self._scram:
            self._scram = image.scram
            self._examples = _first_credentials(image)
        self._tokens = image.tokens

    def find(self, mechanism: str, name: str, by_token: bool) -> ScramAccount:
        return self._token(mechanism, name) if by_token else self._user(mechanism, name)

    def _user(self, mechanism: str, name: str) -> ScramAccount:
        number = SCRAM_NUMBERS[mechanism]
        record = self._scram.get(ScramKey(name, number))
        example = self._examples.get(number, _LIKE_KAFKA)
        made_up = made_up_credential(SCRAM_DIGESTS[mechanism], self._salts_of, name, example)
        if record is None or record.iterations < ITERATIONS_MIN:
            return ScramAccount(made_up, None)
        return ScramAccount(_credential(record), Principal(name))

    def _token(self, mechanism: str, token_id: str) -> ScramAccount:
        digest = SCRAM_DIGESTS[mechanism]
        token = self._tokens.get(token_id) if self._token_secret else None
        left_ms = -1 if token is None else _ends_at(token) - self._now_ms()
        salt = _token_salt(self._salts_of, token_id)
        if token is None or left_ms <= 0:
            nobody = ScramCredential(salt, bytes(1), bytes(1), ITERATIONS_MIN)
            return ScramAccount(nobody, None)
        kind, owner = split_principal(token.owner)
        credential = _token_credential(digest, self._token_secret, token_id, salt)
        return ScramAccount(credential, Principal(owner, kind, by_token=True), left_ms)


def _first_credentials(image: MetadataImage) -> dict[int, ScramCredential]:
    """Returns, for each mechanism, the credential of the first user by name."""
    first: dict[int, UserScramCredentialRecord] = {}
    for (name, number), record in image.scram.items():
        is_usable = record.iterations >= ITERATIONS_MIN
        if is_usable and (number not in first or name < first[number].name):
            first[number] = record
    return {number: _credential(record) for number, record in first.items()}


def _credential(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def _ends_at(token: DelegationTokenRecord) -> int:
    return min(token.max_timestamp, token.expiration_timestamp)


def _stretched(secret: str) -> bytes:
    """Returns the key from which salts are derived: random without a secret."""
    if not secret:
        return os.urandom(32)
    return hashlib.pbkdf2_hmac("sha256", secret.encode(), b"of salts", _STRETCH_ITERATIONS)


def _token_salt(salts_of: bytes, token_id: str) -> bytes:
    """Returns a token's salt, which is the same on all nodes; an unknown token's looks like any other."""
    return hmac.digest(salts_of, b"token " + token_id.encode(), "sha256")[:_SALT_BYTES]


@lru_cache(_TOKENS_REMEMBERED)
def _token_credential(digest: str, secret: str, token_id: str, salt: bytes) -> ScramCredential:
    """Returns the credential of a token; its password is the HMAC in base64."""
    password = base64.b64encode(token_hmac(secret, token_id)).decode()
    return credential_of(digest, password, salt, ITERATIONS_MIN)
