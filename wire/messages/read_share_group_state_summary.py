"""ReadShareGroupStateSummary (87): reads only the start offsets of share partitions (KIP-932).

Versions: 1 the number of complete deliveries (KIP-1226).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_leader_epoch,
    int32_state_epoch,
    int64_offset,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32_leader_epoch


class ReadStateSummaryData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


@request(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Message):
    group_id: string
    topics: list[ReadStateSummaryData]


class PartitionResult(Struct):
    partition: int32
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32_state_epoch
    leader_epoch: int32_leader_epoch
    start_offset: int64_offset
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


@response(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    results: list[ReadStateSummaryResult]
