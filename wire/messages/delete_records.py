"""DeleteRecords (21): moves log start offsets forward.

Versions: 2 flexible.
"""

from trimaran.wire.codec.declarations import Struct, int16, int32, int64_offset, string
from trimaran.wire.schema import Message, request, response


class DeleteRecordsPartition(Struct):
    partition_index: int32
    offset: int64_offset


class DeleteRecordsTopic(Struct):
    name: string
    partitions: list[DeleteRecordsPartition]


@request(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic]
    timeout_ms: int32


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32
    low_watermark: int64_offset
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: string
    partitions: list[DeleteRecordsPartitionResult]


@response(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult]
