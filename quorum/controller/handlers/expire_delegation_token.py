"""ExpireDelegationToken (40): changes the expiry time of a delegation token, or removes the token."""

from __future__ import annotations

from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.security.delegation_tokens import TokenRules, expire_token
from trimaran.quorum.serving.authorization import check_tokens_allowed
from trimaran.quorum.serving.refusals import fail_expire_token
from trimaran.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    ExpireDelegationTokenRequest,
    versions="0-2",
    access=open_to_all("the token names its owner and renewers"),
    on_error=fail_expire_token,
)
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, ctx: ControllerContext, call: Call
) -> Handling[ExpireDelegationTokenResponse]:
    check_tokens_allowed(ctx, call.connection, forwarded=ctx.forwarded)
    rules, requester = TokenRules.of(ctx.config), str(call.connection.principal)
    return ctx.controller.submit(
        lambda active: expire_token(request, active.image, rules, requester, now_ms=now_ms())
    )
