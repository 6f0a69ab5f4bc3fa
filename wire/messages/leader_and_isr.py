"""LeaderAndIsr (4): a ZooKeeper controller informs brokers of the replicas that they lead or follow.

Versions: 1 marks new replicas; 2 broker epoch, grouped by topic (KIP-380); 3 adding and removing replicas (KIP-455); 4
flexible; 5 topic ids and full or incremental (KIP-516); 6 recovery state
(KIP-704); 7 a KRaft controller during migration (KIP-866). Removed in 4.0.
"""

from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int8,
    int16,
    int32,
    int32_broker_id,
    int32_controller_epoch,
    int32_leader_epoch,
    int32_node_id,
    int32_partition_epoch,
    int64_broker_epoch,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class LeaderAndIsrPartitionState(Struct):
    topic_name: string = field("0-1", default="", ignorable=True)
    partition_index: int32
    controller_epoch: int32_controller_epoch
    leader: int32_broker_id
    leader_epoch: int32_leader_epoch
    isr: list[int32_broker_id]
    partition_epoch: int32_partition_epoch
    replicas: list[int32_broker_id]
    adding_replicas: list[int32_broker_id] = field("3+", factory=list, ignorable=True)
    removing_replicas: list[int32_broker_id] = field("3+", factory=list, ignorable=True)
    is_new: boolean = field("1+", default=False, ignorable=True)
    leader_recovery_state: int8 = field("6+", default=0)


class LeaderAndIsrTopicState(Struct):
    topic_name: string
    topic_id: uuid = field("5+", default=NIL_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState]


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int32_broker_id
    host_name: string
    port: int32


@request(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrRequest(Message):
    controller_id: int32_node_id
    is_kraft_controller: boolean = field("7+", default=False)
    controller_epoch: int32_controller_epoch
    broker_epoch: int64_broker_epoch = field("2+", default=-1, ignorable=True)
    type: int8 = field("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1", factory=list)
    topic_states: list[LeaderAndIsrTopicState] = field("2+", factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader]


class LeaderAndIsrPartitionError(Struct):
    topic_name: string = field("0-4", default="", ignorable=True)
    partition_index: int32
    error_code: int16 = 0


class LeaderAndIsrTopicError(Struct):
    topic_id: uuid
    partition_errors: list[LeaderAndIsrPartitionError]


@response(key=4, versions="0-7", flexible="4+")
class LeaderAndIsrResponse(Message):
    error_code: int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4", factory=list)
    topics: list[LeaderAndIsrTopicError] = field("5+", factory=list)
