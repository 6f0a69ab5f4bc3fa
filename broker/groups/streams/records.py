"""Creates the records of a streams group."""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.heartbeating.records import HeartbeatRecords
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.member import StreamsMember
from trimaran.broker.groups.streams.tasks import MemberTasks, TaskSet
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
    """Returns the record of the group's epoch, with the group's other fields in that record."""
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


def _target_value(tasks: MemberTasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_entries(tasks.active),
        standby_tasks=_entries(tasks.standby),
        warmup_tasks=_entries(tasks.warmup),
    )


def _entries(tasks: TaskSet) -> list[StreamsGroupTargetAssignmentMemberValueTaskIds]:
    return [
        StreamsGroupTargetAssignmentMemberValueTaskIds(
            subtopology_id=subtopology, partitions=sorted(partitions)
        )
        for subtopology, partitions in sorted(tasks.items())
    ]


RECORDS: HeartbeatRecords[StreamsMember, MemberTasks] = HeartbeatRecords(
    member_key=StreamsGroupMemberMetadataKey,
    current_key=StreamsGroupCurrentMemberAssignmentKey,
    target_key=StreamsGroupTargetAssignmentMemberKey,
    target_value=_target_value,
    assignment_epoch_key=StreamsGroupTargetAssignmentMetadataKey,
    assignment_epoch_value=StreamsGroupTargetAssignmentMetadataValue,
)


def group_tombstones(group: StreamsGroup) -> Iterator[GroupRecord]:
    """Yields all tombstones of a group: first those of its members, last those of its epoch and its topology."""
    yield from RECORDS.without_assignments(group)
    if group.has_assignment:
        yield RECORDS.without_assignment_epoch(group.id)
    yield from RECORDS.without_members(group)
    yield GroupRecord(StreamsGroupMetadataKey(group_id=group.id), None)
    if group.topology is not None:
        yield GroupRecord(StreamsGroupTopologyKey(group_id=group.id), None)
