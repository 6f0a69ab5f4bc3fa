"""ExpireDelegationToken (40): shortens or ends the life of a delegation token."""

from __future__ import annotations

from functools import partial

from node.runtime.clock import now_ms
from quorum.controller.context import ControllerContext
from quorum.controller.delegation_tokens import NO_TIME, TokenRules, expire_token
from quorum.serving.authorization import may_ask_for_tokens
from wire.errors import ErrorCode, KafkaError
from wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


def _fail(
    _request: ExpireDelegationTokenRequest, code: ErrorCode, _message: str
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME)


@handles(ExpireDelegationTokenRequest, versions="0-2", on_error=_fail)
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ctx: ControllerContext, call: Call
) -> Parked[ExpireDelegationTokenResponse]:
    if not ctx.forwarded and not may_ask_for_tokens(ctx, call.connection):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    rules, requester = TokenRules.of(ctx.config), str(call.connection.principal)
    return ctx.controller.submit(
        lambda active: expire_token(request, active.image, rules, requester, now_ms=now_ms()),
        partial(_fail, request),
    )
