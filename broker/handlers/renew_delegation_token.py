"""RenewDelegationToken (39): lengthens the life of a delegation token. Decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.serving.authorization import may_ask_for_tokens
from wire.errors import ErrorCode
from wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.registry import handles


def _fail(
    _request: RenewDelegationTokenRequest, code: ErrorCode, _message: str
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=-1)


@handles(RenewDelegationTokenRequest, versions="0-2", access=BY_CONTROLLER, on_error=_fail)
async def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: Context, call: Call
) -> Outgoing | RenewDelegationTokenResponse:
    if not may_ask_for_tokens(ctx, call.connection):
        return _fail(request, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, "")
    return await ctx.forwarder.pass_on(request, call)
