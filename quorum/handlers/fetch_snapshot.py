"""FetchSnapshot on a controller: returns a part of a metadata snapshot (KIP-630).

A request that does not name exactly the metadata partition gets INVALID_REQUEST at the top level, as in Kafka (mE10).
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.requests import read_fetch_snapshot
from trimaran.quorum.translate.responses import write_snapshot_response
from trimaran.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import FEW_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(
    FetchSnapshotRequest,
    versions="0-1",
    access=cluster(Operation.CLUSTER_ACTION),
    elements_max=FEW_ELEMENTS_MAX,
)
def fetch_snapshot(
    request: FetchSnapshotRequest, ctx: QuorumContext, call: Call
) -> Handling[FetchSnapshotResponse]:
    return core_response(
        ctx, call, read_fetch_snapshot(request), core.FetchSnapshotResponse, write_snapshot_response
    )
