"""AlterClientQuotas (49): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.client_quotas import fail_alter_quotas
from wire.messages.alter_client_quotas import AlterClientQuotasRequest
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import MANY_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    AlterClientQuotasRequest,
    versions="0-1",
    on_error=fail_alter_quotas,
    elements_max=MANY_ELEMENTS_MAX,
)
async def alter_client_quotas(
    request: AlterClientQuotasRequest, ctx: Context, call: Call
) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
