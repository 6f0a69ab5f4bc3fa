"""UnregisterBroker (64): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(UnregisterBrokerRequest, versions="0", access=BY_CONTROLLER)
async def unregister_broker(request: UnregisterBrokerRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
