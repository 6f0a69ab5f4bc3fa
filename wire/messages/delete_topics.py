"""DeleteTopics (20): deletes topics by name or id.

Versions: 1 throttle time; 4 flexible; 5 error messages and quotas (KIP-599); 6 topic ids (KIP-516).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import Struct, field, int16, int32, string, uuid
from trimaran.wire.schema import Message, request, response


class DeleteTopicState(Struct):
    name: string | None = None
    topic_id: uuid


@request(key=20, versions="0-6", flexible="4+")
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[string] = field("0-5", factory=list, ignorable=True)
    timeout_ms: int32


class DeletableTopicResult(Struct):
    name: string | None = field(nullable="6+")
    topic_id: uuid = field("6+", default=NIL_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field("5+", default=None, ignorable=True)


@response(key=20, versions="0-6", flexible="4+")
class DeleteTopicsResponse(Message):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult]
