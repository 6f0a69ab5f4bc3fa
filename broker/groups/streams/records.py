"""The records of streams groups, as decisions return them.

Source: Kafka's `StreamsCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.tasks import MemberTasks, TaskSet
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.streams_groups import (
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMemberValueTaskIds,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)


def epoch_record(group: StreamsGroup) -> GroupRecord:
    """Returns the record of the group's epoch, and of all that is beside it, as they are in `group`."""
    value = StreamsGroupMetadataValue(
        epoch=group.epoch,
        metadata_hash=group.metadata_hash,
        validated_topology_epoch=group.validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=value)
            for key, value in sorted(group.assignment_configs.items())
        ],
        stored_description_topology_epoch=group.described.stored,
        failed_description_topology_epoch=group.described.failed,
    )
    return GroupRecord(StreamsGroupMetadataKey(group_id=group.id), value)


def topology_record(group_id: str, value: StreamsGroupTopologyValue) -> GroupRecord:
    return GroupRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    key = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.id)
    return GroupRecord(key, member.metadata_value())


def current_record(group_id: str, member: StreamsMember) -> GroupRecord:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    return GroupRecord(key, member.current_value())


def target_record(group_id: str, member_id: str, tasks: MemberTasks) -> GroupRecord:
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_entries(tasks.active),
        standby_tasks=_entries(tasks.standby),
        warmup_tasks=_entries(tasks.warmup),
    )
    return GroupRecord(key, value)


def _entries(tasks: TaskSet) -> list[StreamsGroupTargetAssignmentMemberValueTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberValueTaskIds(
            subtopology_id=subtopology, partitions=sorted(partitions)
        )
        for subtopology, partitions in sorted(tasks.items())
    ]


def assignment_epoch_record(group_id: str, epoch: GroupEpoch, now_ms: int) -> GroupRecord:
    key = StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )
    return GroupRecord(key, value)


# -- tombstones, in the order that Kafka's replay requires


def member_tombstones(group_id: str, member_id: str) -> Iterator[GroupRecord]:
    current = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    target = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    metadata = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    for key in (current, target, metadata):
        yield GroupRecord(key, None)


def group_tombstones(group: StreamsGroup) -> Iterator[GroupRecord]:
    """Yields the tombstones of a whole group: those of members first, those of its epoch and its topology last."""
    for member_id in group.members:
        key = StreamsGroupCurrentMemberAssignmentKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(key, None)
    for member_id in {**group.target, **group.members}:
        target = StreamsGroupTargetAssignmentMemberKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(target, None)
    if group.has_assignment:
        yield GroupRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group.id), None)
    for member_id in group.members:
        metadata = StreamsGroupMemberMetadataKey(group_id=group.id, member_id=member_id)
        yield GroupRecord(metadata, None)
    yield GroupRecord(StreamsGroupMetadataKey(group_id=group.id), None)
    if group.topology is not None:
        yield GroupRecord(StreamsGroupTopologyKey(group_id=group.id), None)
