"""UpdateFeatures (57): decided by the controller."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.update_features import UpdateFeaturesRequest
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(UpdateFeaturesRequest, versions="0-2", elements_max=FEW_ELEMENTS_MAX)
async def update_features(request: UpdateFeaturesRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
