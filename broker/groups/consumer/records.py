"""Creates the records of a consumer group."""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.consumer.group import ConsumerGroup, ResolvedRegex
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.records import HeartbeatRecords
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


def _target_value(partitions: Partitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(found))
            for topic_id, found in partitions.items()
        ]
    )


RECORDS: HeartbeatRecords[ConsumerMember, Partitions] = HeartbeatRecords(
    member_key=ConsumerGroupMemberMetadataKey,
    current_key=ConsumerGroupCurrentMemberAssignmentKey,
    target_key=ConsumerGroupTargetAssignmentMemberKey,
    target_value=_target_value,
    assignment_epoch_key=ConsumerGroupTargetAssignmentMetadataKey,
    assignment_epoch_value=ConsumerGroupTargetAssignmentMetadataValue,
)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> GroupRecord:
    """Returns the record of the topics that a pattern matches, or its tombstone."""
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    if resolved is None:
        return GroupRecord(key, None)
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return GroupRecord(key, value)


def group_tombstones(group: ConsumerGroup) -> Iterator[GroupRecord]:
    """Yields all tombstones of a group: first those of its members, last that of its epoch."""
    yield from RECORDS.without_assignments(group)
    if group.has_assignment:
        yield RECORDS.without_assignment_epoch(group.id)
    yield from RECORDS.without_members(group)
    for regex in group.regexes:
        yield regex_record(group.id, regex, None)
    yield GroupRecord(ConsumerGroupMetadataKey(group_id=group.id), None)
