"""AlterUserScramCredentials (51): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from quorum.controller.scram import fail_alter_scram
from wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import MANY_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    AlterUserScramCredentialsRequest,
    versions="0",
    on_error=fail_alter_scram,
    elements_max=MANY_ELEMENTS_MAX,
)
async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, ctx: Context, call: Call
) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
