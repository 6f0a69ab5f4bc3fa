"""UpdateMetadata (6): a ZooKeeper controller informs brokers about the whole cluster.

Versions: 1 several endpoints of a broker; 2 racks; 3 listener names; 4 offline replicas; 5 broker
epoch, grouped by topic (KIP-380); 6 flexible; 7 topic ids (KIP-516); 8 a KRaft controller during
migration (KIP-866). Removed in 4.0.
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
    int64_broker_epoch,
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class UpdateMetadataPartitionState(Struct):
    topic_name: string = field("0-4", default="", ignorable=True)
    partition_index: int32
    controller_epoch: int32_controller_epoch
    leader: int32_broker_id
    leader_epoch: int32_leader_epoch
    isr: list[int32_broker_id]
    zk_version: int32
    replicas: list[int32_broker_id]
    offline_replicas: list[int32_broker_id] = field("4+", factory=list, ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: string
    topic_id: uuid = field("7+", default=NIL_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(Struct):
    port: int32
    host: string
    listener: string = field("3+", default="", ignorable=True)
    security_protocol: int16


class UpdateMetadataBroker(Struct):
    id: int32
    v0_host: string = field("0", default="", ignorable=True)
    v0_port: int32 = field("0", default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field("1+", factory=list, ignorable=True)
    rack: string | None = field("2+", default="", ignorable=True)


@request(key=6, versions="0-8", flexible="6+")
class UpdateMetadataRequest(Message):
    controller_id: int32_node_id
    is_kraft_controller: boolean = field("8+", default=False)
    type: int8 = field("8+", default=0, tag=0)
    controller_epoch: int32_controller_epoch
    broker_epoch: int64_broker_epoch = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4", factory=list)
    topic_states: list[UpdateMetadataTopicState] = field("5+", factory=list)
    live_brokers: list[UpdateMetadataBroker]


@response(key=6, versions="0-8", flexible="6+")
class UpdateMetadataResponse(Message):
    error_code: int16 = 0
