"""RemoveRaftVoter on a controller: a voter becomes an observer, the leader too (KIP-853). Only the leader can do it."""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, defer
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.voters import read_remove, write_remove_response
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call, DeferredResponse
from trimaran.wire.transport.requests.handles import handles


@handles(RemoveRaftVoterRequest, versions="0", access=cluster(Operation.ALTER))
def remove_raft_voter(
    request: RemoveRaftVoterRequest, ctx: QuorumContext, call: Call
) -> DeferredResponse[RemoveRaftVoterResponse]:
    return defer(ctx, call, read_remove(request), core.RemoveVoterResponse, write_remove_response)
