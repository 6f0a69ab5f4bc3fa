"""AddRaftVoter (80): adds a voter to the quorum (KIP-853).

Versions: 1 a choice to answer only when the change is committed.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_node_id,
    string,
    uint16,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class Listener(Struct):
    name: string
    host: string
    port: uint16


@request(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest(Message):
    cluster_id: string | None
    timeout_ms: int32
    voter_id: int32_node_id
    voter_directory_id: uuid
    listeners: list[Listener]
    ack_when_committed: boolean = field("1+", default=True)


@response(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
