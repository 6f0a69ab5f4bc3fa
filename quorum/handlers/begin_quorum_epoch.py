"""BeginQuorumEpoch on a controller: a new leader introduces itself (KIP-595).

Not about the metadata partition alone, or about nothing: INVALID_REQUEST at the top, as Kafka answers (mE10).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, defer
from quorum.raft import messages as core
from quorum.translate.requests import read_begin
from quorum.translate.responses import write_begin_response
from quorum.translate.shape import WrongShape
from wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from wire.security.acls import Operation
from wire.transport.access import cluster
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import FEW_ELEMENTS_MAX
from wire.transport.registry import handles


@handles(
    BeginQuorumEpochRequest,
    versions="0-1",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def begin_quorum_epoch(
    request: BeginQuorumEpochRequest, ctx: QuorumContext, call: Call
) -> BeginQuorumEpochResponse | DeferredResponse[BeginQuorumEpochResponse]:
    try:
        message = read_begin(request)
    except WrongShape as error:
        return BeginQuorumEpochResponse(error_code=error.code, topics=[])
    return defer(ctx, call, message, core.BeginQuorumEpochResponse, write_begin_response)
