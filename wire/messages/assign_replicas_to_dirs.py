"""AssignReplicasToDirs (73): a broker reports the log directories of its replicas (KIP-858)."""

from trimaran.wire.codec.declarations import (
    Struct,
    int16,
    int32,
    int32_broker_id,
    int64_broker_epoch,
    uuid,
)
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.schema import Message, request, response


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: int32


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


@request(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsRequest(Message):
    broker_id: int32_broker_id
    broker_epoch: int64_broker_epoch = BrokerEpoch(-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData]


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16 = 0


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


@response(key=73, versions="0", flexible="0+")
class AssignReplicasToDirsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[AssignReplicasToDirsResponseDirectoryData]
