"""DescribeProducers (61): the state of the producers that write to partitions (KIP-664)."""

from trimaran.wire.codec.declarations import (
    Struct,
    int16,
    int32,
    int32_coordinator_epoch,
    int32_producer_epoch,
    int64,
    int64_offset,
    int64_producer_id,
    string,
)
from trimaran.wire.identity import NO_OFFSET
from trimaran.wire.schema import Message, request, response


class TopicRequest(Struct):
    name: string
    partition_indexes: list[int32]


@request(key=61, versions="0", flexible="0+")
class DescribeProducersRequest(Message):
    topics: list[TopicRequest]


class ProducerState(Struct):
    producer_id: int64_producer_id
    producer_epoch: int32_producer_epoch
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32_coordinator_epoch
    current_txn_start_offset: int64_offset = NO_OFFSET


class PartitionResponse(Struct):
    partition_index: int32
    error_code: int16 = 0
    error_message: string | None = None
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    name: string
    partitions: list[PartitionResponse]


@response(key=61, versions="0", flexible="0+")
class DescribeProducersResponse(Message):
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse]
