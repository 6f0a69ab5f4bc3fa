"""AddRaftVoter (80): decided by the quorum's leader."""

from __future__ import annotations

from broker.context import Context
from wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(AddRaftVoterRequest, versions="0-1")
async def add_raft_voter(
    request: AddRaftVoterRequest, ctx: Context, call: Call
) -> AddRaftVoterResponse:
    return await ctx.forwarder.forward(request, call, AddRaftVoterResponse)
