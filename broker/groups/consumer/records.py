"""Creates the records of a consumer group.

Source: Kafka's `GroupCoordinatorRecordHelpers`. All records are written at version 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.consumer.group import NO_ASSIGNMENT_EPOCH, ConsumerGroup, ResolvedRegex
from trimaran.broker.groups.consumer.member import ConsumerMember, Partitions
from trimaran.broker.groups.records import GroupRecord
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
)


def epoch_record(group_id: str, epoch: GroupEpoch, metadata_hash: int) -> GroupRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id)
    return GroupRecord(key, member.metadata_value())


def current_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return GroupRecord(key, member.current_value())


def target_record(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = [
        TopicPartition(topic_id=topic_id, partitions=sorted(found))
        for topic_id, found in partitions.items()
    ]
    return GroupRecord(key, ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics))


def assignment_epoch_record(group_id: str, epoch: GroupEpoch, now_ms: int) -> GroupRecord:
    key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return GroupRecord(key, value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> GroupRecord:
    """Returns the record of the topics that a pattern matches, or its tombstone."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    if resolved is None:
        return GroupRecord(key, None)
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return GroupRecord(key, value)


# -- tombstones, in the order that Kafka's replay requires


def member_tombstones(group_id: str, member_id: str) -> Iterator[GroupRecord]:
    current = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    target = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    metadata = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    for key in (current, target, metadata):
        yield GroupRecord(key, None)


def group_tombstones(group: ConsumerGroup) -> Iterator[GroupRecord]:
    """Yields all tombstones of a group: first those of its members, last that of its epoch."""
    for member_id in group.members:
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(key, None)
    for member_id in {**group.target, **group.members}:
        target = ConsumerGroupTargetAssignmentMemberKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(target, None)
    if group.assignment_epoch != NO_ASSIGNMENT_EPOCH:
        yield GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.id), None)
    for member_id in group.members:
        metadata = ConsumerGroupMemberMetadataKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(metadata, None)
    for regex in group.regexes:
        yield regex_record(group.id, regex, None)
    yield GroupRecord(ConsumerGroupMetadataKey(group_id=group.id), None)
