"""AlterPartition (56): a leader proposes a new set of in-sync replicas (KIP-497).

Versions: 1 recovery state (KIP-704); 2 names topics by id (KIP-841); 3 the epochs of replicas
(KIP-903).
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int8,
    int16,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int32_partition_epoch,
    int64_broker_epoch,
    string,
    uuid,
)
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.schema import Message, request, response


class BrokerState(Struct):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int32
    leader_epoch: int32_leader_epoch
    new_isr: list[int32_broker_id] = field("0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = field("3+", factory=list)
    leader_recovery_state: int8 = field("1+", default=0)
    partition_epoch: int32_partition_epoch


class AlterPartitionRequestTopicData(Struct):
    topic_name: string = field("0-1", default="", ignorable=True)
    topic_id: uuid = field("2+", default=NIL_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData]


@request(key=56, versions="0-3", flexible="0+")
class AlterPartitionRequest(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)
    topics: list[AlterPartitionRequestTopicData]


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0
    leader_id: int32_broker_id
    leader_epoch: int32_leader_epoch
    isr: list[int32_broker_id]
    leader_recovery_state: int8 = field("1+", default=0, ignorable=True)
    partition_epoch: int32_partition_epoch


class AlterPartitionResponseTopicData(Struct):
    topic_name: string = field("0-1", default="", ignorable=True)
    topic_id: uuid = field("2+", default=NIL_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


@response(key=56, versions="0-3", flexible="0+")
class AlterPartitionResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[AlterPartitionResponseTopicData]
