"""Groups as ListGroups and DescribeGroups tell of them.

Source: `ClassicGroup.asListedGroup`, `ClassicGroupMember.describe`. A group known by its offsets alone is Empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import Member
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.shard import GroupCoordinatorShard
from trimaran.wire.errors import ErrorCode, KafkaError, cut_message
from trimaran.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from trimaran.wire.messages.list_groups import ListedGroup

# From this version a group that does not exist is an error, before it is described as dead (KIP-1043).
NOT_FOUND_VERSION = 6


def list_groups(
    shard: GroupCoordinatorShard,
    group_ids: Iterable[str],
    states: Collection[str],
    types: Collection[str],
) -> list[ListedGroup]:
    """Of groups of a shard; filters are not case-sensitive, and an empty one lets everything through."""
    wanted_states = {state.strip().lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    listed = []
    for group_id in group_ids:
        group = shard.kind_of(group_id).listed(group_id)
        if wanted_types and group.group_type not in wanted_types:
            continue
        if not wanted_states or group.group_state.lower() in wanted_states:
            listed.append(group)
    return listed


def find_consumer_group(shard: GroupCoordinatorShard, group_id: str) -> ConsumerGroup:
    """The group as it is now, which changes no more.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, also for groups of other kinds.
    """
    if shard.kind_of(group_id) is not shard.consumers:
        is_other = group_id in shard.groups or shard.store.knows(group_id)
        why = "is not a consumer group" if is_other else "not found"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {why}.")
    return shard.store.consumer_groups[group_id].draft()


def describe_group(
    shard: GroupCoordinatorShard, group_id: str, version: int
) -> tuple[DescribedGroup, Iterator[DescribedGroupMember]]:
    """State, and the members of now, which may be many; what members said and got is told of stable groups only."""
    group = shard.groups.get(group_id)
    if shard.kind_of(group_id) is not shard.classic:
        return _not_found(group_id, version, "is not a classic group"), iter(())
    if group is None and not shard.store.knows(group_id):
        return _not_found(group_id, version, "not found"), iter(())
    if group is None:
        return described(group_id, GroupState.EMPTY.value), iter(())
    stable = group.state is GroupState.STABLE
    result = described(group_id, group.state.value)
    result.protocol_type = group.protocol_type or ""
    result.protocol_data = (group.protocol_name or "") if stable else ""
    return result, _members(group, stable)


def _members(group: ClassicGroup, stable: bool) -> Iterator[DescribedGroupMember]:
    """Each is described when its turn comes, but as it is now."""
    protocol = group.protocol_name or ""
    members = [
        (member, member.metadata(protocol) if stable else b"", member.assignment)
        for member in group.members.values()
    ]
    return itertools.starmap(_describe_member, members)


def described(group_id: str, state: str, code: ErrorCode = ErrorCode.NONE) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _not_found(group_id: str, version: int, why: str) -> DescribedGroup:
    result = described(group_id, GroupState.DEAD.value)
    if version >= NOT_FOUND_VERSION:
        result.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        result.error_message = cut_message(f"Group {group_id} {why}.")
    return result


def _describe_member(member: Member, metadata: bytes, assignment: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=assignment,
    )
