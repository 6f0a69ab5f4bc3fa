"""Decides CreateTopics, CreatePartitions and DeleteTopics: validation, placement and the resulting records, in steps of
a partition or a topic.

Source: Kafka's `ReplicationControlManager` and the topic parts of `ControllerApis`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.topic_keys import check_topic_configs
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.configs.config_checks import CHARACTERS_MAX, characters_of, steps_of
from trimaran.quorum.controller.configs.effective_configs import EffectiveConfigs
from trimaran.quorum.controller.configs.mutation_quotas import Spend, without_quota
from trimaran.quorum.controller.configs.policies import NO_POLICIES, NewTopic, Policies
from trimaran.quorum.controller.partitions.new_partitions import NewPartitions
from trimaran.quorum.controller.partitions.placement import PlacementPrng
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.metadata.image import TOPIC_RESOURCE, MetadataImage, PartitionImage, TopicImage
from trimaran.quorum.metadata.records import partition_record
from trimaran.quorum.metadata.topic_names import METADATA_TOPIC, in_metrics, why_illegal
from trimaran.quorum.serving.authorization import everybody
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.topics import RemoveTopicRecord, TopicRecord
from trimaran.wire.schema import Message

# Kafka's limit: one request must not block the quorum, nor create a batch that followers refuse (KAFKA-14996).
RECORDS_MAX = 10_000
DEFAULT = -1


def new_topic_id() -> bytes:
    """Returns a random id that is neither reserved nor begins with a dash in text form (command lines would parse it as
    an option).
    """
    while True:
        found = os.urandom(16)
        if found >= (100).to_bytes(16, "big") and found[0] >> 2 != 0b111110:
            return found


@dataclass(frozen=True)
class TopicRules:
    """The rules for decisions about topics that are not in the image."""

    config: ServerConfig
    prng: PlacementPrng
    new_id: Callable[[], bytes] = new_topic_id
    policies: Policies = NO_POLICIES

    @cached_property
    def effective_configs(self) -> EffectiveConfigs:
        return EffectiveConfigs(self.config)


May = Callable[[str], bool]
"""Whether the client may perform an operation on the topic of that name."""


# --- CreateTopics


def create_topics(
    request: CreateTopicsRequest,
    state: ControllerState,
    rules: TopicRules,
    may_create: May = everybody,
    spend: Spend = without_quota,
) -> Steps[Result[Message, CreateTopicsResponse]]:
    """Creates the valid topics in one atomic batch; each other topic has its own error in the response.

    Raises:
        KafkaError: POLICY_VIOLATION if the request is too large; nothing is created.
    """
    _check_size(request, rules)
    times = Counter(topic.name for topic in request.topics)
    new = NewPartitions(state.image)
    records: list[Message] = []
    results: dict[str, CreatableTopicResult] = {}
    created: dict[str, str] = {}  # topic names by their form in metrics
    for topic in request.topics:
        yield steps_of(topic.configs)
        try:
            _check_times(topic.name, times[topic.name])
            if not may_create(topic.name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            _check_name(topic.name, state, created)
            made, results[topic.name] = yield from _create_topic(topic, new, rules, spend)
        except KafkaError as error:
            results[topic.name] = _failed(topic.name, error)
            yield 1
            continue
        created.setdefault(in_metrics(topic.name), topic.name)
        records += made
    if len(records) > RECORDS_MAX:
        raise too_much()
    response = CreateTopicsResponse(topics=list(results.values()))
    return Result([] if request.validate_only else records, response)


def _check_size(request: CreateTopicsRequest, rules: TopicRules) -> None:
    total, default = 0, rules.config["num.partitions"]
    for topic in request.topics:
        count = default if topic.num_partitions == DEFAULT else topic.num_partitions
        total += len(topic.assignments) or max(count, 0)
    if total > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )
    if sum(characters_of(topic.configs) for topic in request.topics) > CHARACTERS_MAX:
        raise too_much()


def too_much() -> KafkaError:
    return KafkaError(
        ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    )


def _check_times(name: str, times: int) -> None:
    """Refuses a topic that the request names more than once; the error is the same for every client."""
    if times > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )


def _check_name(name: str, state: ControllerState, created: Mapping[str, str]) -> None:
    if name in state.image.topics.by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    why = why_illegal(name)
    if why is None and (other := state.index.colliding(name) or created.get(in_metrics(name))):
        why = f"Topic '{name}' collides with existing topic: {other}"
    if why is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def text_of(error: KafkaError) -> str | None:
    """Returns the error's message; None if it only repeats the code."""
    return None if error.is_bare else error.message


def _failed(name: str, error: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=text_of(error))


def _create_topic(
    topic: CreatableTopic, new: NewPartitions, rules: TopicRules, spend: Spend
) -> Steps[tuple[list[Message], CreatableTopicResult]]:
    configs = _checked_configs(topic)
    if topic.assignments:
        partitions = yield from _assigned_by_hand(topic, new)
    else:
        partitions = yield from _placed(topic, new, rules)
    factor = len(partitions[0].replicas)
    by_hand = {
        assignment.partition_index: assignment.broker_ids for assignment in topic.assignments
    } or None
    rules.policies.check_topic(NewTopic(topic.name, len(partitions), factor, by_hand, configs))
    spend(len(partitions))
    topic_id = rules.new_id()
    records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
    records += [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in configs.items()
    ]
    for index, partition in enumerate(partitions):
        records.append(partition_record(TopicIdPartition(topic_id, index), partition))
        yield 1
    result = CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=factor,
        configs=rules.effective_configs.of(configs, new.image.configs),
    )
    return records, result


def _checked_configs(topic: CreatableTopic) -> dict[str, str]:
    without_value = [config.name for config in topic.configs if config.value is None]
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(without_value)}",
        )
    configs = {config.name: config.value or "" for config in topic.configs}
    try:
        check_topic_configs(configs)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.answer) from error
    return configs


def _placed(
    topic: CreatableTopic, new: NewPartitions, rules: TopicRules
) -> Steps[list[PartitionImage]]:
    factor, count = topic.replication_factor, topic.num_partitions
    if factor < DEFAULT or factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count < DEFAULT or count == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor == DEFAULT:
        factor = rules.config["default.replication.factor"]
    if count == DEFAULT:
        count = rules.config["num.partitions"]
    try:
        return (yield from new.placed(count, factor, rules.prng))
    except KafkaError as error:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): {error.message}",
        ) from error


def _assigned_by_hand(topic: CreatableTopic, new: NewPartitions) -> Steps[list[PartitionImage]]:
    for given, what in (
        (topic.replication_factor, "replication factor"),
        (topic.num_partitions, "numPartitions"),
    ):
        if given != DEFAULT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    assigned: dict[int, PartitionImage] = {}
    factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in assigned:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        assigned[index] = new.assigned(index, assignment.broker_ids, factor)
        factor = len(assignment.broker_ids)
        yield 1
    if sorted(assigned) != list(range(len(assigned))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [assigned[index] for index in range(len(assigned))]


# --- CreatePartitions


def create_partitions(
    request: CreatePartitionsRequest,
    image: MetadataImage,
    rules: TopicRules,
    may_alter: May = everybody,
    spend: Spend = without_quota,
) -> Steps[Result[Message, CreatePartitionsResponse]]:
    """Adds partitions to the valid topics in one atomic batch.

    Raises:
        KafkaError: POLICY_VIOLATION if the request is too large; nothing is changed.
    """
    times = Counter(topic.name for topic in request.topics)
    new = NewPartitions(image)
    records: list[Message] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        code, message = ErrorCode.NONE, None
        try:
            if times[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if not may_alter(topic.name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            room = RECORDS_MAX - len(records)
            records += yield from _add_partitions(topic, new, rules, spend, room)
        except KafkaError as error:
            if error.code is ErrorCode.POLICY_VIOLATION:
                raise
            code, message = error.code, text_of(error)
            yield 1
        results[topic.name] = CreatePartitionsTopicResult(
            name=topic.name, error_code=code, error_message=message
        )
    response = CreatePartitionsResponse(results=list(results.values()))
    return Result([] if request.validate_only else records, response)


def _add_partitions(
    asked: CreatePartitionsTopic, new: NewPartitions, rules: TopicRules, spend: Spend, room: int
) -> Steps[list[Message]]:
    """Adds partitions to one topic. `room` is the number of records that the request may still add; it is checked
    before any record is made.
    """
    topic = new.image.topics.by_name.get(asked.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if asked.count <= present:
        why = f"The topic {asked.name} currently has {present} partition(s); {asked.count} would not be an increase."
        if asked.count == present:
            why = f"Topic already has {present} partition(s)."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, why)
    added = asked.count - present
    if asked.assignments is not None and len(asked.assignments) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(asked.assignments)} assignment(s) were "
            f"specified.",
        )
    if added > room:
        raise too_much()
    spend(added)
    factor = len(topic.partitions[0].replicas) if 0 in topic.partitions else 1
    if asked.assignments is None:
        partitions = yield from new.placed(added, factor, rules.prng)
    else:
        partitions = []
        for index, assignment in enumerate(asked.assignments, present):
            partitions.append(new.assigned(index, assignment.broker_ids, factor))
            yield 1
    records: list[Message] = []
    for index, partition in enumerate(partitions, present):
        records.append(partition_record(TopicIdPartition(topic.id, index), partition))
        yield 1
    return records


# --- DeleteTopics


def delete_topics(
    request: DeleteTopicsRequest,
    image: MetadataImage,
    *,
    enabled: bool,
    version: int,
    may_see: May = everybody,
    may_delete: May = everybody,
    spend: Spend = without_quota,
) -> Steps[Result[Message, DeleteTopicsResponse]]:
    """Deletes topics by name or by id; a topic that the request names twice is not deleted.

    Raises:
        KafkaError: POLICY_VIOLATION if there are too many.
    """
    if not enabled:
        raise (
            KafkaError(ErrorCode.TOPIC_DELETION_DISABLED)
            if version > 2
            else KafkaError(
                ErrorCode.INVALID_REQUEST, "This version does not support topic deletion."
            )
        )
    asked = [DeleteTopicState(name=name, topic_id=NIL_UUID) for name in request.topic_names]
    asked += request.topics
    if len(asked) > RECORDS_MAX:
        raise too_much()
    times = Counter((each_topic.name, each_topic.topic_id) for each_topic in asked)
    found: dict[tuple[str | None, bytes], TopicImage | KafkaError] = {}
    for key in times:
        found[key] = _find(key, times[key], image, may_see, may_delete)
        yield 1
    owners = Counter(topic.id for topic in found.values() if isinstance(topic, TopicImage))
    records: list[Message] = []
    responses: list[DeletableTopicResult] = []
    for (name, topic_id), topic in found.items():
        error = topic if isinstance(topic, KafkaError) else None
        if isinstance(topic, _NotDeletable):
            name = topic.name
        if isinstance(topic, TopicImage):
            if name is None and owners[topic.id] > 1:
                continue  # the result of the name covers the id
            name, topic_id = topic.name, topic.id
            if owners[topic.id] > 1:
                error = _NAMED_AND_IDENTIFIED
            elif (error := _too_fast(spend, topic)) is None:
                records.append(RemoveTopicRecord(topic_id=topic.id))
        responses.append(
            DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None or error.code is _TOO_FAST else error.message,
            )
        )
        yield 1
    return Result(records, DeleteTopicsResponse(responses=responses))


_TOO_FAST = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def _too_fast(spend: Spend, topic: TopicImage) -> KafkaError | None:
    try:
        spend(len(topic.partitions))
    except KafkaError as error:
        return error
    return None


_NAMED_AND_IDENTIFIED = KafkaError(
    ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
)


class _NotDeletable(KafkaError):
    """Refuses a topic requested by id; `name` is None for a client that may not describe the topic."""

    def __init__(self, name: str | None) -> None:
        super().__init__(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        self.name = name


def _find(
    asked: tuple[str | None, bytes], times: int, image: MetadataImage, may_see: May, may_delete: May
) -> TopicImage | KafkaError:
    """Returns the topic or the error of the response. A client that may not describe a topic does not learn whether it
    exists.
    """
    name, topic_id = asked
    why = None
    if name is None and topic_id == NIL_UUID:
        why = "Neither topic name nor id were specified."
    elif name is not None and topic_id != NIL_UUID:
        why = "You may not specify both topic name and topic id."
    elif times > 1:
        why = "Duplicate topic id." if name is None else "Duplicate topic name."
    if why is not None:
        return KafkaError(ErrorCode.INVALID_REQUEST, why)
    if name is None:
        topic = image.topics.by_id.get(topic_id)
        if topic is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
            )
        visible = may_see(topic.name)
        return topic if may_delete(topic.name) else _NotDeletable(topic.name if visible else None)
    if not (may_see(name) and (name not in image.topics.by_name or may_delete(name))):
        return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return image.topics.by_name.get(name) or KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )
