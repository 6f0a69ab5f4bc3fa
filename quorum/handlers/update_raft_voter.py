"""UpdateRaftVoter on a controller: a voter tells the leader where it listens and which kraft.versions it supports
(KIP-853).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, defer
from quorum.raft import messages as core
from quorum.translate.voters import read_update, write_update_response
from wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    UpdateRaftVoterRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def update_raft_voter(
    request: UpdateRaftVoterRequest, ctx: QuorumContext, call: Call
) -> DeferredResponse[UpdateRaftVoterResponse]:
    return defer(ctx, call, read_update(request), core.UpdateVoterResponse, write_update_response)
