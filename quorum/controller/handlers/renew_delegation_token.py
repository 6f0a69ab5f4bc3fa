"""RenewDelegationToken (39): lengthens the life of a delegation token."""

from __future__ import annotations

from functools import partial

from node.runtime.clock import now_ms
from quorum.controller.context import ControllerContext
from quorum.controller.delegation_tokens import NO_TIME, TokenRules, renew_token
from quorum.serving.authorization import may_ask_for_tokens
from wire.errors import ErrorCode, KafkaError
from wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


def _fail(
    _request: RenewDelegationTokenRequest, code: ErrorCode, _message: str
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)


@handles(RenewDelegationTokenRequest, versions="0-2", on_error=_fail)
def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: ControllerContext, call: Call
) -> Parked[RenewDelegationTokenResponse]:
    if not ctx.forwarded and not may_ask_for_tokens(ctx, call.connection):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    rules, requester = TokenRules.of(ctx.config), str(call.connection.principal)
    return ctx.controller.submit(
        lambda active: renew_token(request, active.image, rules, requester, now_ms=now_ms()),
        partial(_fail, request),
    )
