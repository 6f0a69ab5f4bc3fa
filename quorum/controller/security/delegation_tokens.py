"""Decides about delegation tokens: creation, renewal, expiry and the removal of expired ones. Source: Kafka's
`DelegationTokenControlManager`, KIP-48, KIP-900.

Times are milliseconds since 1970; the caller passes the present time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimaran.node.config.server import ServerConfig
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.image import MetadataImage, TokensImage
from trimaran.quorum.metadata.tokens import (
    VERSION_NAMING_REQUESTERS,
    find_token,
    held_bytes,
    split_principal,
    token_hmac,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from trimaran.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from trimaran.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from trimaran.wire.records.security import DelegationTokenRecord, RemoveDelegationTokenRecord
from trimaran.wire.schema import Message

USER = "User"
LONG_MAX = (1 << 63) - 1
NO_TIME = -1
# Longer names would not fit the record's strings, and only the frame size would limit the number of renewers.
RENEWERS_MAX = 1000
# The bound for all tokens, which each node keeps until they expire. 30,000 tokens with usual names fit. A renewal
# searches all of them. Kafka does not limit their number.
TOKENS_BYTES_MAX = 16 << 20
# The number of tokens that one sweep removes, as in Kafka; the next sweep continues.
EXPIRED_MAX = 1000


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The token settings of the configuration; an empty `secret` disables delegation tokens."""

    secret: str
    lifetime_ms: int
    renewal_ms: int

    @classmethod
    def of(cls, config: ServerConfig) -> TokenRules:
        return cls(
            config["delegation.token.secret.key"] or "",
            config["delegation.token.max.lifetime.ms"],
            config["delegation.token.expiry.time.ms"],
        )


def fail_create_token(
    request: CreateDelegationTokenRequest, requester: str, code: ErrorCode, version: int
) -> CreateDelegationTokenResponse:
    """Returns an error response with the owner and, from version 3 on, the requester."""
    owner_type, owner_name = split_principal(owner_of(request, requester))
    named = version >= VERSION_NAMING_REQUESTERS
    requester_type, requester_name = split_principal(requester) if named else ("", "")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=NO_TIME,
        expiry_timestamp_ms=NO_TIME,
        max_timestamp_ms=NO_TIME,
        token_id="",
        hmac=b"",
    )


def create_token(
    request: CreateDelegationTokenRequest,
    image: MetadataImage,
    rules: TokenRules,
    requester: str,
    *,
    version: int,
    now_ms: int,
    new_id: Callable[[], str],
) -> Result[Message, CreateDelegationTokenResponse]:
    """Creates a token for `requester` ("User:alice"), or for the owner that the request names.

    Raises:
        KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION, INVALID_PRINCIPAL_TYPE, INVALID_REQUEST (too
            many renewers), POLICY_VIOLATION (too many tokens).
    """
    _check_enabled(image, rules)
    if any(renewer.principal_type != USER for renewer in request.renewers):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if len(request.renewers) > RENEWERS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"at most {RENEWERS_MAX} renewers")
    asked = request.max_lifetime_ms
    lifetime = min(asked, rules.lifetime_ms) if asked > 0 else rules.lifetime_ms
    max_timestamp = min(now_ms + lifetime, LONG_MAX)
    record = DelegationTokenRecord(
        owner=owner_of(request, requester),
        requester=requester,
        renewers=[
            f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers
        ],
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=min(max_timestamp, now_ms + rules.renewal_ms),
        token_id=new_id(),
    )
    if image.token_bytes + held_bytes(record) > TOKENS_BYTES_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"all delegation tokens together have {TOKENS_BYTES_MAX} bytes: expire some, or name fewer renewers",
        )
    response = fail_create_token(request, requester, ErrorCode.NONE, version).replace(
        issue_timestamp_ms=now_ms,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=max_timestamp,
        token_id=record.token_id,
        hmac=token_hmac(rules.secret, record.token_id),
    )
    return Result([record], response)


def renew_token(
    request: RenewDelegationTokenRequest,
    image: MetadataImage,
    rules: TokenRules,
    requester: str,
    *,
    now_ms: int,
) -> Steps[Result[Message, RenewDelegationTokenResponse]]:
    """Moves the expiry to now plus the requested period, but never beyond the token's maximum lifetime.

    Raises:
        KafkaError: DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION, …_NOT_FOUND, …_EXPIRED, …_OWNER_MISMATCH.
    """
    token = yield from _token(image, rules, request.hmac)
    _check_alive(token, now_ms)
    _check_renewer(token, requester)
    asked = request.renew_period_ms
    period = min(asked, rules.renewal_ms) if asked > 0 else rules.renewal_ms
    expiry = min(token.max_timestamp, now_ms + period)
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=expiry)
    return Result([token.replace(expiration_timestamp=expiry)], response)


def expire_token(
    request: ExpireDelegationTokenRequest,
    image: MetadataImage,
    rules: TokenRules,
    requester: str,
    *,
    now_ms: int,
) -> Steps[Result[Message, ExpireDelegationTokenResponse]]:
    """Moves the expiry to now plus the requested period; a negative period removes the token immediately.

    Raises:
        KafkaError: the same errors as `renew_token`.
    """
    token = yield from _token(image, rules, request.hmac)
    _check_renewer(token, requester)
    period = request.expiry_time_period_ms
    if period < 0:
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms)
        return Result([RemoveDelegationTokenRecord(token_id=token.token_id)], response)
    _check_alive(token, now_ms)
    expiry = min(token.max_timestamp, now_ms + period)
    response = ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry)
    return Result([token.replace(expiration_timestamp=expiry)], response)


def expired_tokens(tokens: TokensImage, *, now_ms: int) -> list[Message]:
    """Returns records that remove expired tokens, at most `EXPIRED_MAX`."""
    gone = (
        token_id
        for token_id, token in tokens.items()
        if min(token.max_timestamp, token.expiration_timestamp) < now_ms
    )
    return [
        RemoveDelegationTokenRecord(token_id=token_id)
        for token_id, _ in zip(gone, range(EXPIRED_MAX), strict=False)
    ]


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    """Returns the owner of the requested token."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def _check_enabled(image: MetadataImage, rules: TokenRules) -> None:
    if not rules.secret:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    if image.features.metadata_version < versions.DELEGATION_TOKENS:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def _token(image: MetadataImage, rules: TokenRules, hmac: bytes) -> Steps[DelegationTokenRecord]:
    _check_enabled(image, rules)
    token = yield from find_token(image.tokens, rules.secret, hmac)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _check_alive(token: DelegationTokenRecord, now_ms: int) -> None:
    if min(token.max_timestamp, token.expiration_timestamp) < now_ms:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)


def _check_renewer(token: DelegationTokenRecord, requester: str) -> None:
    if requester != token.owner and requester not in token.renewers:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
