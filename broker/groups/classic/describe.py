"""Descriptions of groups for DescribeGroups.

Source: `ClassicGroup.asListedGroup`, `ClassicGroupMember.describe`. A group that only has offsets is Empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import Member
from trimaran.wire.errors import ErrorCode, cut_message
from trimaran.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

# From this version on a missing group is an error; before, it is described as Dead (KIP-1043).
NOT_FOUND_VERSION = 6

Description = tuple[DescribedGroup, Iterator[DescribedGroupMember]]
"""A group without its members, and an iterator that creates the members one by one, since there may be many."""


def describe_group(group: ClassicGroup) -> Description:
    """Returns the group and its current members; subscriptions and assignments are only included for stable groups."""
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    result = described(group.id, group.state.value)
    result.protocol_type = group.protocol_type or ""
    result.protocol_data = protocol or ""
    return result, _members(group, protocol)


def _members(group: ClassicGroup, protocol: str | None) -> Iterator[DescribedGroupMember]:
    """Yields the members at the time of the call."""
    members = [
        (member, b"" if protocol is None else member.metadata(protocol), member.assignment)
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


def not_found(group_id: str, version: int, why: str) -> Description:
    """Returns the description of a missing group in the form of the request's version."""
    result = described(group_id, GroupState.DEAD.value)
    if version >= NOT_FOUND_VERSION:
        result.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        result.error_message = cut_message(f"Group {group_id} {why}.")
    return result, iter(())


def _describe_member(member: Member, metadata: bytes, assignment: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=assignment,
    )
