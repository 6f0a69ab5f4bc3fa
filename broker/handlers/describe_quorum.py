"""DescribeQuorum (55): told by the quorum's leader."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.describe_quorum import DescribeQuorumRequest
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(DescribeQuorumRequest, versions="0-2", elements_max=FEW_ELEMENTS_MAX)
async def describe_quorum(request: DescribeQuorumRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
