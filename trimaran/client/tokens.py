"""Delegation tokens (KIP-48): rows of those that the caller may see, and their changes. Times are in milliseconds since
1970.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import check
from trimaran.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from trimaran.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from trimaran.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from trimaran.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# The type and name of a principal.
Principal = tuple[str, str]
YOURSELF: Principal = ("", "")
AS_LONG_AS_ALLOWED_MS = -1
AT_ONCE_MS = -1  # the period that expires a token immediately


def token_rows(client: BlockingClient) -> list[dict[str, Any]]:
    """Returns a row for each token, with its HMAC in `hmac`, which must not be shown. Raises KafkaError."""
    response = client.call(None, DescribeDelegationTokenRequest(owners=None))
    check(response.error_code, "")
    return [
        {
            "token": token.token_id,
            "owner": f"{token.principal_type}:{token.principal_name}",
            "renewers": [f"{who.principal_type}:{who.principal_name}" for who in token.renewers],
            "issued_ms": token.issue_timestamp,
            "expires_ms": token.expiry_timestamp,
            "ends_ms": token.max_timestamp,
            "hmac": token.hmac,
        }
        for token in response.tokens
    ]


def create_token(
    client: BlockingClient,
    owner: Principal = YOURSELF,
    renewers: Iterable[Principal] = (),
    life_ms: int = AS_LONG_AS_ALLOWED_MS,
) -> dict[str, Any]:
    """Creates a token. Returns its row, without renewers. Raises KafkaError."""
    owner_type, owner_name = owner
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers
        ],
        max_lifetime_ms=life_ms,
    )
    response = client.call(None, request, retry_unknown=False)
    check(response.error_code, "")
    return {
        "token": response.token_id,
        "owner": f"{response.principal_type}:{response.principal_name}",
        "issued_ms": response.issue_timestamp_ms,
        "expires_ms": response.expiry_timestamp_ms,
        "ends_ms": response.max_timestamp_ms,
        "hmac": response.hmac,
    }


def renew_token(client: BlockingClient, hmac: bytes, period_ms: int) -> int:
    """Extends the life of a token to `period_ms` from now. Returns the time at which it expires. Raises KafkaError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = client.call(None, request, retry_unknown=False)
    check(response.error_code, "")
    return int(response.expiry_timestamp_ms)


def expire_token(client: BlockingClient, hmac: bytes, period_ms: int) -> int:
    """Makes a token expire `period_ms` from now, or immediately (`AT_ONCE_MS`). Returns the time at which it expires.
    Raises KafkaError.
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = client.call(None, request, retry_unknown=False)
    check(response.error_code, "")
    return int(response.expiry_timestamp_ms)
