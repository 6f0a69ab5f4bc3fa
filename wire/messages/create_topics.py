"""CreateTopics (19): creates topics, or only validates the request.

Versions: 1 validation only, and error messages; 2 throttle time; 4 default partitions and replication (KIP-464); 5
flexible, returns the created topics' properties (KIP-525); 6 quotas (KIP-599); 7 topic ids (KIP-516).
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
    string,
    uuid,
)
from trimaran.wire.schema import Message, request, response


class CreatableReplicaAssignment(Struct):
    partition_index: int32
    broker_ids: list[int32_broker_id]


class CreatableTopicConfig(Struct):
    name: string
    value: string | None


class CreatableTopic(Struct):
    name: string
    num_partitions: int32
    replication_factor: int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


@request(key=19, versions="0-7", flexible="5+")
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic]
    timeout_ms: int32 = 60000
    validate_only: boolean = field("1+", default=False)


class CreatableTopicConfigs(Struct):
    name: string
    value: string | None
    read_only: boolean
    config_source: int8 = -1
    is_sensitive: boolean


class CreatableTopicResult(Struct):
    name: string
    topic_id: uuid = field("7+", default=NIL_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field("1+", default=None, ignorable=True)
    topic_config_error_code: int16 = field("5+", default=0, tag=0, ignorable=True)
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, ignorable=True)


@response(key=19, versions="0-7", flexible="5+")
class CreateTopicsResponse(Message):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult]
