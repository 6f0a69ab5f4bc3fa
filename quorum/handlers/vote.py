"""Vote on a controller: a candidate or prospective candidate asks for our vote (KIP-595, KIP-996).

Not about the metadata partition alone, or about nothing: INVALID_REQUEST at the top, as Kafka answers (mE10).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, defer
from quorum.raft import messages as core
from quorum.translate.requests import read_vote
from quorum.translate.responses import write_vote_response
from quorum.translate.shape import WrongShape
from wire.messages.vote import VoteRequest, VoteResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    VoteRequest,
    versions="0-2",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def vote(
    request: VoteRequest, ctx: QuorumContext, call: Call
) -> VoteResponse | DeferredResponse[VoteResponse]:
    try:
        message = read_vote(request)
    except WrongShape as error:
        return VoteResponse(error_code=error.code, topics=[])
    return defer(ctx, call, message, core.VoteResponse, write_vote_response)
