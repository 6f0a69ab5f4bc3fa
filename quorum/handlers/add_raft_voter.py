"""AddRaftVoter on a controller: turns a replica that has caught up into a voter (KIP-853). Only the leader can do
it.
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.voters import read_add, write_add_response
from trimaran.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    AddRaftVoterRequest,
    versions="0-1",
    access=cluster(Operation.ALTER),
    elements_max=FEW_ELEMENTS_MAX,
)
def add_raft_voter(
    request: AddRaftVoterRequest, ctx: QuorumContext, call: Call
) -> Handling[AddRaftVoterResponse]:
    return core_response(ctx, call, read_add(request), core.AddVoterResponse, write_add_response)
