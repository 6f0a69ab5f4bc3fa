"""WriteTxnMarkers (27): a transaction coordinator requests that partition leaders write the result of a transaction
(KIP-98).

Versions: 1 flexible; 2 the version of transactions (KIP-1228).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int16_producer_epoch,
    int32,
    int32_coordinator_epoch,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, request, response


class WritableTxnMarkerTopic(Struct):
    name: string
    partition_indexes: list[int32]


class WritableTxnMarker(Struct):
    producer_id: int64_producer_id
    producer_epoch: int16_producer_epoch
    transaction_result: boolean
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32_coordinator_epoch
    transaction_version: int8 = field("2+", default=0, ignorable=True)


@request(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker]


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: string
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: int64_producer_id
    topics: list[WritableTxnMarkerTopicResult]


@response(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult]
