"""Vote on a controller: a candidate or prospective candidate asks for our vote (KIP-595, KIP-996).

Not about the metadata partition alone, or about nothing: INVALID_REQUEST at the top, as Kafka answers (mE10).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, park
from quorum.raft import messages as core
from quorum.translate.requests import read_vote
from quorum.translate.responses import write_vote_response
from quorum.translate.shape import WrongShape
from wire.messages.vote import VoteRequest, VoteResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(VoteRequest, versions="0-2")
def vote(
    request: VoteRequest, ctx: QuorumContext, call: Call
) -> VoteResponse | Parked[VoteResponse]:
    try:
        message = read_vote(request)
    except WrongShape as error:
        return VoteResponse(error_code=error.code, topics=[])
    return park(ctx, call, message, core.VoteResponse, write_vote_response)
