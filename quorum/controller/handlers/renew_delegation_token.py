"""RenewDelegationToken (39): extends the life of a delegation token."""

from __future__ import annotations

from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.security.delegation_tokens import TokenRules, renew_token
from trimaran.quorum.serving.authorization import check_tokens_allowed
from trimaran.quorum.serving.refusals import fail_renew_token
from trimaran.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    RenewDelegationTokenRequest,
    versions="0-2",
    access=open_to_all("the token names its owner and renewers"),
    on_error=fail_renew_token,
)
def renew_delegation_token(
    request: RenewDelegationTokenRequest, ctx: ControllerContext, call: Call
) -> Handling[RenewDelegationTokenResponse]:
    check_tokens_allowed(ctx, call.connection, forwarded=ctx.forwarded)
    rules, requester = TokenRules.of(ctx.config), str(call.connection.principal)
    return ctx.controller.submit(
        lambda active: renew_token(request, active.image, rules, requester, now_ms=now_ms())
    )
