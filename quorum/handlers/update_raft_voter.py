"""UpdateRaftVoter on a controller: a voter reports its endpoints and its supported kraft.versions to the leader
(KIP-853).
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.voters import read_update, write_update_response
from trimaran.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    UpdateRaftVoterRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def update_raft_voter(
    request: UpdateRaftVoterRequest, ctx: QuorumContext, call: Call
) -> Handling[UpdateRaftVoterResponse]:
    return core_response(
        ctx, call, read_update(request), core.UpdateVoterResponse, write_update_response
    )
