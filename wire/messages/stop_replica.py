"""StopReplica (5): a ZooKeeper controller requests that brokers stop or delete replicas.

Versions: 1 broker epoch, grouped by topic (KIP-380); 2 flexible; 3 leader epochs (KIP-570); 4 a KRaft
controller during migration (KIP-866). Removed in 4.0.
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_controller_epoch,
    int32_leader_epoch,
    int32_node_id,
    int64_broker_epoch,
    string,
)
from trimaran.wire.identity import NO_LEADER_EPOCH
from trimaran.wire.schema import Message, request, response


class StopReplicaPartitionV0(Struct):
    topic_name: string
    partition_index: int32


class StopReplicaTopicV1(Struct):
    name: string
    partition_indexes: list[int32]


class StopReplicaPartitionState(Struct):
    partition_index: int32
    leader_epoch: int32_leader_epoch = NO_LEADER_EPOCH
    delete_partition: boolean


class StopReplicaTopicState(Struct):
    topic_name: string
    partition_states: list[StopReplicaPartitionState]


@request(key=5, versions="0-4", flexible="2+")
class StopReplicaRequest(Message):
    controller_id: int32_node_id
    is_kraft_controller: boolean = field("4+", default=False)
    controller_epoch: int32_controller_epoch
    broker_epoch: int64_broker_epoch = field("1+", default=-1, ignorable=True)
    delete_partitions: boolean = field("0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0", factory=list)
    topics: list[StopReplicaTopicV1] = field("1-2", factory=list)
    topic_states: list[StopReplicaTopicState] = field("3+", factory=list)


class StopReplicaPartitionError(Struct):
    topic_name: string
    partition_index: int32
    error_code: int16 = 0


@response(key=5, versions="0-4", flexible="2+")
class StopReplicaResponse(Message):
    error_code: int16 = 0
    partition_errors: list[StopReplicaPartitionError]
