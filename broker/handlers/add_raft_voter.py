"""AddRaftVoter (80): decided by the quorum's leader."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.add_raft_voter import AddRaftVoterRequest
from wire.outgoing import Outgoing
from wire.transport.calls import Call
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(AddRaftVoterRequest, versions="0-1", elements_max=FEW_ELEMENTS_MAX)
async def add_raft_voter(request: AddRaftVoterRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
