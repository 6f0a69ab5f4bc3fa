"""Creates the records of a share group.

Source: Kafka's `GroupCoordinatorRecordHelpers`. All are written at version 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.member import Partitions, ShareMember
from trimaran.broker.groups.share.state_partitions import StatePartitions
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicPartition,
)


def epoch_record(group_id: str, epoch: GroupEpoch, metadata_hash: int) -> GroupRecord:
    value = ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return GroupRecord(ShareGroupMetadataKey(group_id=group_id), value)


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    key = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.id)
    return GroupRecord(key, member.metadata_value())


def current_record(group_id: str, member: ShareMember) -> GroupRecord:
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return GroupRecord(key, member.current_value())


def target_record(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    topics = [
        TopicPartition(topic_id=topic_id, partitions=sorted(found))
        for topic_id, found in partitions.items()
    ]
    return GroupRecord(key, ShareGroupTargetAssignmentMemberValue(topic_partitions=topics))


def assignment_epoch_record(group_id: str, epoch: GroupEpoch, now_ms: int) -> GroupRecord:
    key = ShareGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = ShareGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return GroupRecord(key, value)


def states_record(group_id: str, states: StatePartitions) -> GroupRecord:
    """Returns the record of the group's share partitions."""
    return GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), states.value())


# -- tombstones, in the order that Kafka's replay requires


def member_tombstones(group_id: str, member_id: str) -> Iterator[GroupRecord]:
    current = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    target = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    metadata = ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    for key in (current, target, metadata):
        yield GroupRecord(key, None)


def group_tombstones(group: ShareGroup) -> Iterator[GroupRecord]:
    """Yields the tombstones of a whole group: those of members first, that of its epoch last."""
    for member_id in group.members:
        key = ShareGroupCurrentMemberAssignmentKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(key, None)
    for member_id in {**group.target, **group.members}:
        target = ShareGroupTargetAssignmentMemberKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(target, None)
    yield GroupRecord(ShareGroupTargetAssignmentMetadataKey(group_id=group.id), None)
    for member_id in group.members:
        metadata = ShareGroupMemberMetadataKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(metadata, None)
    yield GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group.id), None)
    yield GroupRecord(ShareGroupMetadataKey(group_id=group.id), None)
