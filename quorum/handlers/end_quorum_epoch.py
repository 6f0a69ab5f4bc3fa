"""EndQuorumEpoch on a controller: a leader resigns and names its preferred successors (KIP-595).

A request that does not name exactly the metadata partition gets INVALID_REQUEST at the top level, as in Kafka (mE10).
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.requests import read_end
from trimaran.quorum.translate.responses import write_end_response
from trimaran.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    EndQuorumEpochRequest,
    versions="0-1",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def end_quorum_epoch(
    request: EndQuorumEpochRequest, ctx: QuorumContext, call: Call
) -> Handling[EndQuorumEpochResponse]:
    return core_response(
        ctx, call, read_end(request), core.EndQuorumEpochResponse, write_end_response
    )
