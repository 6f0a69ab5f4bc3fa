"""UnregisterBroker (64): decided by the controller."""

from __future__ import annotations

from broker.context import Context
from wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(UnregisterBrokerRequest, versions="0")
async def unregister_broker(
    request: UnregisterBrokerRequest, ctx: Context, call: Call
) -> UnregisterBrokerResponse:
    return await ctx.forwarder.forward(request, call, UnregisterBrokerResponse)
