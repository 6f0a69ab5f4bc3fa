"""Creates the records of a share group."""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.records import HeartbeatRecords
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.member import ShareMember
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


def _target_value(partitions: Partitions) -> ShareGroupTargetAssignmentMemberValue:
    return ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(found))
            for topic_id, found in partitions.items()
        ]
    )


RECORDS: HeartbeatRecords[ShareMember, Partitions] = HeartbeatRecords(
    member_key=ShareGroupMemberMetadataKey,
    current_key=ShareGroupCurrentMemberAssignmentKey,
    target_key=ShareGroupTargetAssignmentMemberKey,
    target_value=_target_value,
    assignment_epoch_key=ShareGroupTargetAssignmentMetadataKey,
    assignment_epoch_value=ShareGroupTargetAssignmentMetadataValue,
)


def states_record(group_id: str, states: StatePartitions) -> GroupRecord:
    """Returns the record of the group's share partitions."""
    return GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group_id), states.value())


def group_tombstones(group: ShareGroup) -> Iterator[GroupRecord]:
    """Yields all tombstones of a group: first those of its members, last that of its epoch."""
    yield from RECORDS.without_assignments(group)
    yield RECORDS.without_assignment_epoch(group.id)
    yield from RECORDS.without_members(group)
    yield GroupRecord(ShareGroupStatePartitionMetadataKey(group_id=group.id), None)
    yield GroupRecord(ShareGroupMetadataKey(group_id=group.id), None)
