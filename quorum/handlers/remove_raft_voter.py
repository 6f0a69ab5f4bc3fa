"""RemoveRaftVoter on a controller: turns a voter, possibly the leader itself, into an observer (KIP-853). Only the
leader can do it.
"""

from __future__ import annotations

from trimaran.quorum.handlers.context import QuorumContext, core_response
from trimaran.quorum.raft import messages as core
from trimaran.quorum.translate.voters import read_remove, write_remove_response
from trimaran.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


@handles(RemoveRaftVoterRequest, versions="0", access=cluster(Operation.ALTER))
def remove_raft_voter(
    request: RemoveRaftVoterRequest, ctx: QuorumContext, call: Call
) -> Handling[RemoveRaftVoterResponse]:
    return core_response(
        ctx, call, read_remove(request), core.RemoveVoterResponse, write_remove_response
    )
