"""Delegation tokens: their HMACs, and their form in DescribeDelegationToken (41). Source: Kafka's
`DelegationTokenManager`, KIP-48.

The log has no secret of a token: its HMAC, which is its password, is derived from its id and
`delegation.token.secret.key`, which all nodes share.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import lru_cache

from trimaran.node.runtime.steps import Steps
from trimaran.node.text.memory import text_bytes
from trimaran.quorum.metadata.image import TokensImage
from trimaran.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
)
from trimaran.wire.records.security import DelegationTokenRecord

# The number of cached HMACs; each costs microseconds, and a search needs all of them.
_REMEMBERED = 1 << 16
# The number of HMACs that take as long as a record (`Steps`).
_TOKENS_PER_STEP = 8
# The memory of a token without its names.
_TOKEN_BYTES = 400
# The first version of creating and describing tokens with the requester in the response (KIP-373).
VERSION_NAMING_REQUESTERS = 3


@lru_cache(_REMEMBERED)
def token_hmac(secret: str, token_id: str) -> bytes:
    """Returns the HMAC, which the owner of the token knows."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def find_token(
    tokens: TokensImage, secret: str, wanted: bytes
) -> Steps[DelegationTokenRecord | None]:
    """Returns the token with that HMAC, in steps of some tokens."""
    for number, (token_id, token) in enumerate(tokens.items(), 1):
        if hmac.compare_digest(token_hmac(secret, token_id), wanted):
            return token
        if number % _TOKENS_PER_STEP == 0:
            yield 1
    return None


def held_bytes(token: DelegationTokenRecord) -> int:
    """Returns the approximate memory of a token."""
    names = sum(map(text_bytes, token.renewers))
    return _TOKEN_BYTES + text_bytes(token.owner) + text_bytes(token.requester) + names


def token_filter(
    request: DescribeDelegationTokenRequest,
    requester: str,
    may_see: Callable[[DelegationTokenRecord], bool],
) -> Callable[[DelegationTokenRecord], bool]:
    """Returns the predicate of tokens to describe. One of the named owners must own the token, have requested it, or be
    its renewer (any token, if the request names no owners); and the same must be true of `requester`, unless it
    `may_see` the token.
    """
    owners = (
        None
        if request.owners is None
        else {f"{owner.principal_type}:{owner.principal_name}" for owner in request.owners}
    )

    def is_wanted(token: DelegationTokenRecord) -> bool:
        concerned = {token.owner, token.requester, *token.renewers}
        if owners is not None and not owners & concerned:
            return False
        return requester in concerned or may_see(token)

    return is_wanted


def split_principal(text: str) -> tuple[str, str]:
    """Splits "User:alice" into type and name; a name may contain colons."""
    kind, _, name = text.partition(":")
    return kind, name


def describe_token(
    token: DelegationTokenRecord, secret: str, version: int
) -> DescribedDelegationToken:
    """Returns the token with its HMAC, in the form of a response of that version."""
    owner_type, owner_name = split_principal(token.owner)
    named = version >= VERSION_NAMING_REQUESTERS
    requester_type, requester_name = split_principal(token.requester) if named else ("", "")
    renewers = [split_principal(renewer) for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in renewers
        ],
    )
