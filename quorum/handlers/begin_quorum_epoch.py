"""BeginQuorumEpoch on a controller: a new leader introduces itself (KIP-595).

Not about the metadata partition alone, or about nothing: INVALID_REQUEST at the top, as Kafka answers (mE10).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, park
from quorum.raft import messages as core
from quorum.translate.requests import read_begin
from quorum.translate.responses import write_begin_response
from quorum.translate.shape import WrongShape
from wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(BeginQuorumEpochRequest, versions="0-1")
def begin_quorum_epoch(
    request: BeginQuorumEpochRequest, ctx: QuorumContext, call: Call
) -> BeginQuorumEpochResponse | Parked[BeginQuorumEpochResponse]:
    try:
        message = read_begin(request)
    except WrongShape as error:
        return BeginQuorumEpochResponse(error_code=error.code, topics=[])
    return park(ctx, call, message, core.BeginQuorumEpochResponse, write_begin_response)
