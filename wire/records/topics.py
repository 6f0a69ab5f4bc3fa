"""Metadata records of topics and partitions (KIP-631).

Versions: directories came with KIP-858, eligible leader replicas with KIP-966.
"""

from trimaran.wire.codec.declarations import (
    field,
    int8,
    int32,
    int32_broker_id,
    int32_leader_epoch,
    int32_partition_epoch,
    string,
    uuid,
)
from trimaran.wire.identity import BrokerId, LeaderEpoch, PartitionEpoch
from trimaran.wire.schema import Message, record


@record(key=2, versions="0", flexible="0+")
class TopicRecord(Message):
    name: string
    topic_id: uuid


@record(key=3, versions="0-2", flexible="0+")
class PartitionRecord(Message):
    partition_id: int32 = -1
    topic_id: uuid
    replicas: list[int32_broker_id]
    isr: list[int32_broker_id]
    removing_replicas: list[int32_broker_id]
    adding_replicas: list[int32_broker_id]
    leader: int32_broker_id = BrokerId(-1)
    leader_recovery_state: int8 = field(default=0, tag=0)
    leader_epoch: int32_leader_epoch = LeaderEpoch(-1)
    partition_epoch: int32_partition_epoch = PartitionEpoch(-1)
    directories: list[uuid] = field("1+", factory=list)
    eligible_leader_replicas: list[int32_broker_id] | None = field("2+", default=None, tag=1)
    last_known_elr: list[int32_broker_id] | None = field("2+", default=None, tag=2)


@record(key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(Message):
    partition_id: int32 = -1
    topic_id: uuid
    isr: list[int32_broker_id] | None = field(default=None, tag=0)
    leader: int32_broker_id = field(default=-2, tag=1)
    replicas: list[int32_broker_id] | None = field(default=None, tag=2)
    removing_replicas: list[int32_broker_id] | None = field(default=None, tag=3)
    adding_replicas: list[int32_broker_id] | None = field(default=None, tag=4)
    leader_recovery_state: int8 = field(default=-1, tag=5)
    directories: list[uuid] | None = field("1+", default=None, tag=8)
    eligible_leader_replicas: list[int32_broker_id] | None = field("2+", default=None, tag=6)
    last_known_elr: list[int32_broker_id] | None = field("2+", default=None, tag=7)


@record(key=9, versions="0", flexible="0+")
class RemoveTopicRecord(Message):
    topic_id: uuid


@record(key=28, versions="0", flexible="0+")
class ClearElrRecord(Message):
    topic_name: string
