"""FetchSnapshot on a controller: a piece of a metadata snapshot (KIP-630).

Not about the metadata partition alone, or about nothing: INVALID_REQUEST at the top, as Kafka answers (mE10).
"""

from __future__ import annotations

from quorum.handlers.context import QuorumContext, park
from quorum.raft import messages as core
from quorum.translate.requests import read_fetch_snapshot
from quorum.translate.responses import write_snapshot_response
from quorum.translate.shape import WrongShape
from wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from wire.transport.calls import Call, Parked
from wire.transport.registry import handles


@handles(FetchSnapshotRequest, versions="0-1")
def fetch_snapshot(
    request: FetchSnapshotRequest, ctx: QuorumContext, call: Call
) -> FetchSnapshotResponse | Parked[FetchSnapshotResponse]:
    try:
        message = read_fetch_snapshot(request)
    except WrongShape as error:
        return FetchSnapshotResponse(error_code=error.code, topics=[])
    return park(ctx, call, message, core.FetchSnapshotResponse, write_snapshot_response)
