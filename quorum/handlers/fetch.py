"""Fetch on a controller: followers and observers replicate the metadata log (KIP-595, KIP-630, KIP-1166).

A Fetch below version 12 has no fields for divergence and is not supported. A request that does not name exactly the
metadata partition gets INVALID_REQUEST at the top level, as in Kafka (mE10).
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.requests import read_fetch
from trimaran.quorum.translate.responses import write_fetch_response
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    FetchRequest,
    versions="12-18",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def fetch(request: FetchRequest, ctx: QuorumContext, call: Call) -> Handling[FetchResponse]:
    return core_response(ctx, call, read_fetch(request), core.FetchResponse, write_fetch_response)
