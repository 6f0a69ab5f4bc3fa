"""Decisions about the start offsets of a share group, which are in the states of its partitions.

The offsets change only while the group has no members: members would continue at the old ones. Source:
`alterShareGroupOffsets`, `sharePartitionsEligibleForOffsetDeletion`, `completeDeleteShareGroupOffsets` and
`shareGroupBuildPartitionDeleteRequest` of Kafka 4.4's `GroupMetadataManager`. Intentional differences: a partition or
start offset below zero is refused, except the start offset -1, which means the offset of `share.auto.offset.reset`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trimaran.broker.groups.share import initializing
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.operation import Initialization, ShareOperation
from trimaran.broker.groups.share.records import states_record
from trimaran.broker.groups.share.state_partitions import TOPICS_MAX, ByTopic, TopicState, joined
from trimaran.broker.groups.topics import Topics
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_OFFSET, Offset, TopicIdPartition
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
)
from trimaran.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponseTopic,
)
from trimaran.wire.transport.scheduling.pauses import pauses

# The partitions of a request that are checked between two pauses: a few milliseconds.
CHECKED_A_STEP = 500

# The text of Kafka, which its tools print.
UNKNOWN_TOPIC = "This server does not host this topic-partition."


def check_empty(group: ShareGroup) -> None:
    """Raises KafkaError NON_EMPTY_GROUP if the group has members."""
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, ErrorCode.NON_EMPTY_GROUP.sentence)


# -- altering


class CheckedTopic(NamedTuple):
    """A topic of a request, with the code of each partition that it names, in order; `id` is nil if it does not
    exist.
    """

    name: str
    id: bytes
    codes: Sequence[tuple[int, ErrorCode]]


@dataclass(frozen=True, slots=True)
class Alteration:
    """The topics of a request, checked, and the valid start offsets; None means the offset of
    `share.auto.offset.reset`.
    """

    topics: list[CheckedTopic] = field(default_factory=list)
    partitions: dict[bytes, TopicState] = field(default_factory=dict)
    offsets: dict[TopicIdPartition, Offset | None] = field(default_factory=dict)


Altered = Initialization[dict[TopicIdPartition, Offset | None]]
"""The partitions to initialize at the offsets of a request."""


def checked(
    known: Topics, asked: Iterable[AlterShareGroupOffsetsRequestTopic]
) -> Generator[None, None, Alteration]:
    """Checks a request in pieces; the group is not needed for that."""
    alteration = Alteration()
    pause = pauses(CHECKED_A_STEP)
    for wanted in asked:
        topic = known.find(wanted.topic_name)
        count = 0 if topic is None else topic.partition_count
        codes: list[tuple[int, ErrorCode]] = []
        valid: set[int] = set()
        for partition in wanted.partitions:
            index, start = partition.partition_index, partition.start_offset
            code = _refusal(index, count, start)
            codes.append((index, code))
            if topic is not None and not code:
                valid.add(index)
                key = TopicIdPartition(topic.id, index)
                alteration.offsets[key] = None if start == NO_OFFSET else start
            yield from next(pause)
        topic_id = NIL_UUID if topic is None else topic.id
        alteration.topics.append(CheckedTopic(wanted.topic_name, topic_id, codes))
        if topic is not None and valid:
            before = alteration.partitions.get(topic.id)
            both = valid if before is None else valid | before.partitions
            alteration.partitions[topic.id] = TopicState(topic.name, frozenset(both))
        yield
    return alteration


def alter(operation: ShareOperation, alteration: Alteration) -> Altered | None:
    """Begins to initialize partitions at new offsets; returns None if there are none.

    Raises:
        KafkaError: as `check_empty` does; POLICY_VIOLATION if the group would have states in too many topics.
    """
    check_empty(operation.group)
    begun = alteration.partitions
    if not begun:
        return None
    topics = operation.group.known_states.topic_ids | begun.keys()
    if len(topics) > TOPICS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"A share group may have offsets in at most {TOPICS_MAX} topics.",
        )
    return initializing.begin(operation, begun, alteration.offsets)


def _refusal(index: int, count: int, start_offset: Offset) -> ErrorCode:
    if not 0 <= index < count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_REQUEST if start_offset < NO_OFFSET else ErrorCode.NONE


def altered(index: int, code: ErrorCode) -> AlterShareGroupOffsetsResponsePartition:
    """Returns the result for a partition."""
    is_unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    why = UNKNOWN_TOPIC if is_unknown else code.sentence if code else None
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=code, error_message=why
    )


# -- deleting


class States(NamedTuple):
    """States to delete, by topic."""

    topics: ByTopic

    def partitions(self) -> Iterator[TopicIdPartition]:
        """Yields the partitions one by one: a topic may have 100,000."""
        for topic_id, topic in self.topics.items():
            for partition in sorted(topic.partitions):
                yield TopicIdPartition(topic_id, partition)


class Deletion(NamedTuple):
    """States to delete, and the response for topics without states."""

    states: States
    refused: list[DeleteShareGroupOffsetsResponseTopic]


def delete(operation: ShareOperation, names: Iterable[str]) -> Deletion:
    """Marks initialized topics as deleting. Raises KafkaError as `check_empty` does."""
    group = operation.group
    check_empty(group)
    found: dict[bytes, TopicState] = {}
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    if group.states is None:
        return Deletion(States(found), refused)
    for name in names:
        topic = operation.topics.find(name)
        if topic is None:
            refused.append(_unknown(name, UNKNOWN_TOPIC))
        elif topic.id in group.states.initialized:
            found[topic.id] = group.states.initialized[topic.id]
        elif topic.id in group.states.deleting:
            found[topic.id] = _whole(topic.name, topic.partition_count)
        else:
            refused.append(_unknown(name, "There is no offset information to delete."))
    states = group.states.deleting_topics({key: topic.name for key, topic in found.items()})
    if states != group.states:
        operation.write([states_record(group.id, states)])
    return Deletion(States(found), refused)


def _unknown(name: str, why: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=bytes(16),
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=why,
    )


def deleted(operation: ShareOperation, topic_ids: Iterable[bytes]) -> None:
    """Removes topics from `deleting` whose states have been deleted."""
    states = operation.group.states
    if states is not None and (left := states.deleted(set(topic_ids))) != states:
        operation.write([states_record(operation.group.id, left)])


def release(operation: ShareOperation) -> States:
    """Marks all states as deleting, before the group is deleted; returns the partitions that may have one. Raises
    KafkaError as `check_empty` does.
    """
    group = operation.group
    check_empty(group)
    if group.states is None:
        return States({})
    topics = joined(group.states.initialized, group.states.initializing)
    topics = joined(topics, _existing(group.states.deleting, operation.topics))
    if (states := group.states.deleting_all()) != group.states:
        operation.write([states_record(group.id, states)])
    return States(topics)


def _existing(deleting: Mapping[bytes, str], topics: Topics) -> Mapping[bytes, TopicState]:
    """Returns all partitions of the topics that still exist: it is unknown which of them have a state."""
    found = {}
    for topic_id, name in deleting.items():
        topic = topics.find(name)
        if topic is not None and topic.id == topic_id:
            found[topic_id] = _whole(name, topic.partition_count)
    return found


def _whole(name: str, count: int) -> TopicState:
    return TopicState(name, frozenset(range(count)))
