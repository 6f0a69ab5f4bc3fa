"""Descriptions of share groups for ListGroups and ShareGroupDescribe.

Source: Kafka's `ShareGroup.asListedGroup`, `-asDescribedGroup`, `ShareGroupMember.asShareGroupDescribeMember`.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.member import ShareMember
from trimaran.broker.groups.topics import Topics
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from trimaran.wire.messages.share_group_describe import Member as DescribedMember

SHARE = "share"


def described(
    group: ShareGroup, topics: Topics, assignor: str
) -> tuple[DescribedGroup, Iterator[DescribedMember]]:
    """Returns the description of an immutable group without its members, and an iterator that describes them one by
    one.
    """
    head = DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=assignor,
        members=[],
    )
    return head, (_member(member, topics) for member in group.members.values())


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


def _member(member: ShareMember, topics: Topics) -> DescribedMember:
    """Describes a member; omits deleted topics from its assignment."""
    return DescribedMember(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(mine))
                for topic_id, mine in member.assigned.items()
                if (name := topics.name_of(topic_id)) is not None
            ]
        ),
    )
