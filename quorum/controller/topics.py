"""CreateTopics, CreatePartitions, DeleteTopics: validation, placement, and the records that say it.

Source: Kafka's `ReplicationControlManager` and the topic parts of `ControllerApis`. Left out: create-topic policies, quotas,
authorization.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from quorum.config.definition import ConfigError
from quorum.config.description import ConfigDescription
from quorum.config.server import ServerConfig
from quorum.config.topic_keys import check_topic_configs
from quorum.controller.placement import Prng, place_replicas
from quorum.metadata.image import (
    MIGRATING_DIRECTORY,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from quorum.metadata.records import partition_record
from quorum.metadata.topic_names import METADATA_TOPIC, colliding, why_illegal
from quorum.runtime.deferred import Result
from wire.errors import ErrorCode, KafkaError
from wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from wire.primitives import NIL_UUID
from wire.records.configs import ConfigRecord
from wire.records.topics import RemoveTopicRecord, TopicRecord
from wire.schema import Message

# One request may not hold up the quorum, nor make a batch that followers refuse (KAFKA-14996). Kafka's number.
RECORDS_MAX = 10_000
DEFAULT = -1


def new_topic_id() -> bytes:
    """A random id; never one that is reserved, nor one whose text begins with a dash (command lines take that for an option)."""
    while True:
        found = os.urandom(16)
        if found > (100).to_bytes(16, "big") and found[0] >> 2 != 0b111110:
            return found


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What decisions about topics need beside the image."""

    config: ServerConfig
    prng: Prng
    new_id: Callable[[], bytes] = new_topic_id


# --- CreateTopics


def create_topics(
    request: CreateTopicsRequest, image: MetadataImage, rules: TopicRules
) -> Result[Message, CreateTopicsResponse]:
    """All topics that can be created, in one atomic batch; each of the others is answered its own error.

    Raises:
        KafkaError: POLICY_VIOLATION, the request is for too much at once; nothing is created.
    """
    _check_size(request, rules)
    times = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: dict[str, CreatableTopicResult] = {}
    created: list[str] = []
    for topic in request.topics:
        if topic.name in results:
            continue
        try:
            _check_name(topic.name, times[topic.name], image, created)
            made, results[topic.name] = _create_topic(topic, image, rules)
        except KafkaError as error:
            results[topic.name] = _failed(topic.name, error)
            continue
        created.append(topic.name)
        records += made
    if len(records) > RECORDS_MAX:
        raise _too_much()
    response = CreateTopicsResponse(topics=list(results.values()))
    return Result([] if request.validate_only else records, response)


def _check_size(request: CreateTopicsRequest, rules: TopicRules) -> None:
    total = 0
    for topic in request.topics:
        default = rules.config["num.partitions"] if topic.num_partitions == DEFAULT else 0
        total += len(topic.assignments) or max(topic.num_partitions, default, 0)
    if total > RECORDS_MAX:
        raise _too_much()


def _too_much() -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, f"one request may make at most {RECORDS_MAX} changes"
    )


def _check_name(name: str, times: int, image: MetadataImage, created: Sequence[str]) -> None:
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is the quorum's own log")
    if name in image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    why = why_illegal(name)
    if why is None and (other := colliding(name, [*image.topics.by_name, *created])):
        why = (
            f"{name!r} collides with the topic {other!r}: '.' and '_' are one character in metrics"
        )
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _create_topic(
    topic: CreatableTopic, image: MetadataImage, rules: TopicRules
) -> tuple[list[Message], CreatableTopicResult]:
    configs = _checked_configs(topic)
    if topic.assignments:
        partitions = _assigned_by_hand(topic, image)
    else:
        partitions = _placed(topic, image, rules)
    topic_id = rules.new_id()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    records += [partition_record(topic_id, i, partition) for i, partition in enumerate(partitions)]
    described = ConfigDescription(rules.config, image.configs, synonyms=False, documentation=False)
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=one.name,
                value=one.value,
                read_only=one.read_only,
                config_source=one.config_source,
                is_sensitive=one.is_sensitive,
            )
            for one in described.topic_with(configs)
        ],
    )
    return records, result


def _checked_configs(topic: CreatableTopic) -> dict[str, str]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"no value is given for {', '.join(without_value)}"
        )
    configs = {config.name: config.value or "" for config in topic.configs}
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return configs


def _placed(topic: CreatableTopic, image: MetadataImage, rules: TopicRules) -> list[PartitionImage]:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < DEFAULT or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "a replication factor is larger than 0, or -1 for the default",
        )
    if count < DEFAULT or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "a topic has at least one partition (-1 for the default)"
        )
    if factor == DEFAULT:
        factor = rules.config["default.replication.factor"]
    if count == DEFAULT:
        count = rules.config["num.partitions"]
    placed = place_replicas(image.cluster.brokers.values(), count, factor, rules.prng)
    return [
        new_partition(replicas, image, ErrorCode.INVALID_REPLICATION_FACTOR) for replicas in placed
    ]


def _assigned_by_hand(topic: CreatableTopic, image: MetadataImage) -> list[PartitionImage]:
    if topic.replication_factor != DEFAULT or topic.num_partitions != DEFAULT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "with assignments by hand, partitions and replication factor must be -1",
        )
    assigned: dict[int, CreatableReplicaAssignment] = {}
    for assignment in topic.assignments:
        if assignment.partition_index in assigned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} is assigned more than once",
            )
        assigned[assignment.partition_index] = assignment
    if sorted(assigned) != list(range(len(assigned))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    factor = len(topic.assignments[0].broker_ids)
    return [
        _assigned_partition(assigned[index].broker_ids, factor, image)
        for index in range(len(assigned))
    ]


def _assigned_partition(
    broker_ids: Sequence[int], factor: int, image: MetadataImage
) -> PartitionImage:
    why = None
    unknown = [one for one in broker_ids if one not in image.cluster.brokers]
    if not broker_ids:
        why = "an assignment names no broker"
    elif unknown:
        why = f"an assignment names broker {unknown[0]}, which is not registered"
    elif len(set(broker_ids)) != len(broker_ids):
        why = f"the assignment {list(broker_ids)} names a broker more than once"
    elif len(broker_ids) != factor:
        why = f"the assignment {list(broker_ids)} has not {factor} replicas, as others of the topic"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, why)
    return new_partition(tuple(broker_ids), image, ErrorCode.INVALID_REPLICA_ASSIGNMENT)


def new_partition(
    replicas: tuple[int, ...], image: MetadataImage, when_all_are_down: ErrorCode
) -> PartitionImage:
    """Active replicas are in sync from the start, as there is nothing to replicate; the first of them leads."""
    brokers = image.cluster.brokers
    isr = tuple(one for one in replicas if one in brokers and brokers[one].active)
    if not isr:
        raise KafkaError(
            when_all_are_down, f"all of the brokers {list(replicas)} are fenced or shutting down"
        )
    return PartitionImage(
        replicas=replicas,
        directories=tuple(_default_directory(image, one) for one in replicas),
        isr=isr,
        leader=isr[0],
    )


def _default_directory(image: MetadataImage, broker_id: int) -> bytes:
    """A broker with one directory has no choice; one with several decides itself and tells later."""
    broker = image.cluster.brokers.get(broker_id)
    directories = () if broker is None else broker.directories
    if len(directories) == 1:
        return directories[0]
    return UNASSIGNED_DIRECTORY if directories else MIGRATING_DIRECTORY


# --- CreatePartitions


def create_partitions(
    request: CreatePartitionsRequest, image: MetadataImage, rules: TopicRules
) -> Result[Message, CreatePartitionsResponse]:
    """Adds partitions to the topics where it can be done, in one atomic batch.

    Raises:
        KafkaError: POLICY_VIOLATION, too much at once; nothing is changed.
    """
    times = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        if topic.name in results:
            continue
        code, message = ErrorCode.NONE, None
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _add_partitions(topic, image, rules)
        except KafkaError as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                raise
            code, message = error.code, error.message
        results[topic.name] = CreatePartitionsTopicResult(
            name=topic.name, error_code=code, error_message=message
        )
    if len(records) > RECORDS_MAX:
        raise _too_much()
    response = CreatePartitionsResponse(results=list(results.values()))
    return Result([] if request.validate_only else records, response)


def _add_partitions(
    asked: CreatePartitionsTopic, image: MetadataImage, rules: TopicRules
) -> list[Message]:
    topic = image.topics.by_name.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if asked.count <= present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"{asked.name} has {present} partitions, and {asked.count} would not be an increase",
        )
    added = asked.count - present
    if added > RECORDS_MAX:
        raise _too_much()
    factor = len(topic.partitions[0].replicas) if 0 in topic.partitions else 1
    if asked.assignments is None:
        placed = place_replicas(image.cluster.brokers.values(), added, factor, rules.prng)
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        partitions = [new_partition(replicas, image, code) for replicas in placed]
    elif len(asked.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{added} partitions are to be added, and {len(asked.assignments)} are assigned",
        )
    else:
        partitions = [
            _assigned_partition(one.broker_ids, factor, image) for one in asked.assignments
        ]
    return [
        partition_record(topic.id, index, partition)
        for index, partition in enumerate(partitions, present)
    ]


# --- DeleteTopics


def delete_topics(
    request: DeleteTopicsRequest, image: MetadataImage, *, enabled: bool, version: int
) -> Result[Message, DeleteTopicsResponse]:
    """Deletes topics by name or by id; a topic named twice in any way is not deleted.

    Raises:
        KafkaError: POLICY_VIOLATION, too many at once.
    """
    asked = [DeleteTopicState(name=name, topic_id=NIL_UUID) for name in request.topic_names]
    asked += request.topics
    if len(asked) > RECORDS_MAX:
        raise _too_much()
    found = [_find(one, image) for one in asked]
    times = Counter(topic.id for topic, _ in found if topic is not None)
    records: list[Message] = []
    responses: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    for one, (topic, code) in zip(asked, found, strict=True):
        message = None
        if topic is not None and times[topic.id] > 1:
            code, message = ErrorCode.INVALID_REQUEST, "Duplicate topic."
        elif topic is not None and not enabled:
            code = ErrorCode.TOPIC_DELETION_DISABLED if version > 2 else ErrorCode.INVALID_REQUEST
        elif topic is not None:
            records.append(RemoveTopicRecord(topic_id=topic.id))
        deleted = topic is not None and code is ErrorCode.NONE
        name = topic.name if topic is not None and deleted else one.name
        topic_id = topic.id if topic is not None and deleted else one.topic_id
        responses[name, topic_id] = DeletableTopicResult(
            name=name, topic_id=topic_id, error_code=code, error_message=message
        )
    return Result(records, DeleteTopicsResponse(responses=list(responses.values())))


def _find(asked: DeleteTopicState, image: MetadataImage) -> tuple[TopicImage | None, ErrorCode]:
    if (asked.name is None) == (asked.topic_id == NIL_UUID):
        return None, ErrorCode.INVALID_REQUEST
    if asked.name is None:
        topic = image.topics.by_id.get(asked.topic_id)
        return topic, ErrorCode.NONE if topic is not None else ErrorCode.UNKNOWN_TOPIC_ID
    topic = image.topics.by_name.get(asked.name)
    return topic, ErrorCode.NONE if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
