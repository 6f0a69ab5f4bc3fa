"""Declarations for `tests/mutation/test_declarations.py`: a handler with two needs, and a message with versioned
fields.
"""

from trimaran.wire.codec.declarations import Struct, field, int16, int32, string
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.schema import Message, request
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster, groups
from trimaran.wire.transport.requests.handles import handles


@handles(
    HeartbeatRequest,
    versions="0-4",
    access=(
        groups(Operation.READ, "group_id").or_cluster(Operation.ALTER),
        cluster(Operation.DESCRIBE),
    ),
)
def beat(_request: HeartbeatRequest, _context: object, _call: object) -> HeartbeatResponse:
    return HeartbeatResponse()


class Part(Struct):
    number: int16 = field("2+", default=0)


@request(key=12, versions="0-4", flexible="4+")
class Planted(Message):
    name: string
    parts: list[Part] = field("1-3", factory=list)
    size: int32 = field("1+", default=0)
