"""RemoveRaftVoter (81): removes a voter from the quorum (KIP-853)."""

from trimaran.wire.codec.declarations import int16, int32, int32_node_id, string, uuid
from trimaran.wire.schema import Message, request, response


@request(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest(Message):
    cluster_id: string | None
    voter_id: int32_node_id
    voter_directory_id: uuid


@response(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
