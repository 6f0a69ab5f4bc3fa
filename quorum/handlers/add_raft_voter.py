"""AddRaftVoter on a controller: a replica that has caught up becomes a voter (KIP-853). Only the leader can do it."""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, defer
from quorum.raft import messages as core
from quorum.translate.voters import read_add, write_add_response
from wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    AddRaftVoterRequest,
    versions="0-1",
    access=cluster(Operation.ALTER),
    elements_max=FEW_ELEMENTS_MAX,
)
def add_raft_voter(
    request: AddRaftVoterRequest, ctx: QuorumContext, call: Call
) -> DeferredResponse[AddRaftVoterResponse]:
    return defer(ctx, call, read_add(request), core.AddVoterResponse, write_add_response)
