"""Creates the record of a classic group. Source: Kafka's `GroupCoordinatorRecordHelpers`."""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.records import GroupRecord
from trimaran.wire.records.groups import GroupMetadataKey, GroupMetadataValue, MemberMetadata


def group_record(group_id: str, value: GroupMetadataValue | None) -> GroupRecord:
    return GroupRecord(GroupMetadataKey(group=group_id), value)


def group_value(group: ClassicGroup, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
    """Returns the group as it is stored, with the assignments of its generation."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.id, b""),
            )
            for member in group.members.values()
        ],
    )
