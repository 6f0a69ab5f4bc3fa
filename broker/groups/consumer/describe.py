"""Descriptions of consumer groups for ListGroups and ConsumerGroupDescribe.

Source: `ConsumerGroup.asListedGroup`, `-asDescribedGroup`, `ConsumerGroupMember.asConsumerGroupDescribeMember`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.consumer.assigning import preferred_assignor
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.member import ConsumerMember
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.topics import Topics
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from trimaran.wire.messages.consumer_group_describe import Member as DescribedMember

CONSUMER = "consumer"

# The values for the protocol of a member in ConsumerGroupDescribe (KIP-1099).
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def described(
    group: ConsumerGroup, topics: Topics, default_assignor: str
) -> tuple[DescribedGroup, Iterator[DescribedMember]]:
    """Returns the description of an immutable group without its members, and an iterator that describes them one by
    one.
    """
    head = DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, default_assignor),
        members=[],
    )
    members = group.members.values()
    return head, (_member(member, group.target.get(member.id, {}), topics) for member in members)


def refused(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=GroupEpoch(0),
        assignment_epoch=GroupEpoch(0),
        assignor_name="",
        members=[],
    )


def _member(member: ConsumerMember, target: Partitions, topics: Topics) -> DescribedMember:
    assigned = {topic_id: frozenset(mine) for topic_id, mine in member.assigned.items()}
    return DescribedMember(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_names),
        subscribed_topic_regex=member.regex or None,
        assignment=_assignment(assigned, topics),
        target_assignment=_assignment(target, topics),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )


def _assignment(partitions: Partitions, topics: Topics) -> Assignment:
    """Converts an assignment for the response; omits deleted topics."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(mine))
            for topic_id, mine in partitions.items()
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
