"""Vote on a controller: a candidate or prospective candidate requests our vote (KIP-595, KIP-996).

A request that does not name exactly the metadata partition gets INVALID_REQUEST at the top level, as in Kafka (mE10).
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.requests import read_vote
from trimaran.quorum.translate.responses import write_vote_response
from trimaran.wire.messages.vote import VoteRequest, VoteResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    VoteRequest,
    versions="0-2",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def vote(request: VoteRequest, ctx: QuorumContext, call: Call) -> Handling[VoteResponse]:
    return core_response(ctx, call, read_vote(request), core.VoteResponse, write_vote_response)
