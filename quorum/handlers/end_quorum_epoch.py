"""EndQuorumEpoch on a controller: a leader resigns and names successors (KIP-595).

Not about the metadata partition alone, or about nothing: INVALID_REQUEST at the top, as Kafka answers (mE10).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, park
from quorum.raft import messages as core
from quorum.translate.requests import read_end
from quorum.translate.responses import write_end_response
from quorum.translate.shape import WrongShape
from wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(EndQuorumEpochRequest, versions="0-1")
def end_quorum_epoch(
    request: EndQuorumEpochRequest, ctx: QuorumContext, call: Call
) -> EndQuorumEpochResponse | Parked[EndQuorumEpochResponse]:
    try:
        message = read_end(request)
    except WrongShape as error:
        return EndQuorumEpochResponse(error_code=error.code, topics=[])
    return park(ctx, call, message, core.EndQuorumEpochResponse, write_end_response)
