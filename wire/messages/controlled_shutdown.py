"""ControlledShutdown (7): a stopping broker requests that its ZooKeeper controller move its leaders to other brokers.

Version 0 has a request header without client id.
Versions: 2 broker epoch (KIP-380); 3 flexible. Removed in 4.0.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int32_broker_id,
    int64_broker_epoch,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=7, versions="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = field("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: string
    partition_index: int32


@response(key=7, versions="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    error_code: int16 = 0
    remaining_partitions: list[RemainingPartition]
