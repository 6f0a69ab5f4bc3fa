"""RemoveRaftVoter (81): decided by the quorum's leader."""

from __future__ import annotations

from broker.handlers.context import Context
from wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from wire.outgoing import Outgoing
from wire.transport.access import BY_CONTROLLER
from wire.transport.calls import Call
from wire.transport.registry import handles


@handles(RemoveRaftVoterRequest, versions="0", access=BY_CONTROLLER)
async def remove_raft_voter(request: RemoveRaftVoterRequest, ctx: Context, call: Call) -> Outgoing:
    return await ctx.forwarder.pass_on(request, call)
