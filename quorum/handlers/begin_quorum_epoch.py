"""BeginQuorumEpoch on a controller: a new leader announces itself (KIP-595).

A request that does not name exactly the metadata partition gets INVALID_REQUEST at the top level, as in Kafka (mE10).
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.requests import read_begin
from trimaran.quorum.translate.responses import write_begin_response
from trimaran.wire.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    BeginQuorumEpochRequest,
    versions="0-1",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def begin_quorum_epoch(
    request: BeginQuorumEpochRequest, ctx: QuorumContext, call: Call
) -> Handling[BeginQuorumEpochResponse]:
    return core_response(
        ctx, call, read_begin(request), core.BeginQuorumEpochResponse, write_begin_response
    )
