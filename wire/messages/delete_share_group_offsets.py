"""DeleteShareGroupOffsets (92): deletes the start offsets of a share group in topics (KIP-932)."""

from trimaran.wire.codec.declarations import Struct, int16, int32, string, uuid
from trimaran.wire.schema import Message, request, response


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: string


@request(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    group_id: string
    topics: list[DeleteShareGroupOffsetsRequestTopic]


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    error_code: int16 = 0
    error_message: string | None = None


@response(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic]
