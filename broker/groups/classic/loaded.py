"""A classic group out of its record, as a new coordinator finds it: stable, or empty.

Source: `GroupMetadataManager.replay(GroupMetadataKey, GroupMetadataValue)`.
"""

from __future__ import annotations

from trimaran.broker.groups.classic.group import ClassicGroup, GroupState
from trimaran.broker.groups.classic.member import Member
from trimaran.broker.groups.memory import Account
from trimaran.wire.records.groups import GroupMetadataValue


def is_to_rebalance(value: GroupMetadataValue) -> bool:
    """Whether the group was a consumer group and its members have not joined since: the partitions of the last member
    of the consumer protocol may be unassigned.
    """
    return bool(value.members) and value.leader is None


def restore_group(
    group_id: str, value: GroupMetadataValue, account: Account | None = None
) -> ClassicGroup:
    """The group of the last generation that was stored; its members know only the protocol that was chosen."""
    state = GroupState.STABLE if value.members else GroupState.EMPTY
    group = ClassicGroup(group_id, value.current_state_timestamp, state, account)
    for stored in value.members:
        no_own_timeout = stored.rebalance_timeout == -1
        group.add(
            Member(
                id=stored.member_id,
                instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.session_timeout
                if no_own_timeout
                else stored.rebalance_timeout,
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", stored.subscription),),
                assignment=stored.assignment,
            )
        )
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.leader in group.members:
        group.leader = value.leader
    group.note_subscriptions()
    return group
