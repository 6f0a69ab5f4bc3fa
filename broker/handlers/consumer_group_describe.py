"""ConsumerGroupDescribe (69): members of consumer groups with their current and target assignments (KIP-848).

Versions: 1 the protocol of each member (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.consumer import describe
from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.groups.consumer.groups import ConsumerGroups
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_kinds import (
    DESCRIBES_GROUPS,
    MaySee,
    described_of_kind,
    visible_members,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[describe.refused(group_id, code, message) for group_id in request.group_ids]
    )


@handles(
    ConsumerGroupDescribeRequest,
    versions="0-1",
    access=DESCRIBES_GROUPS,
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("group_ids"),
)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: GroupContext, call: Call
) -> Handling[ConsumerGroupDescribeResponse]:
    found = yield from described_of_kind(
        request, ctx, call, consumer.KIND, _described, describe.refused
    )
    return ConsumerGroupDescribeResponse(groups=found)


def _described(
    groups: ConsumerGroups, group_id: str, may_see: MaySee
) -> tuple[DescribedGroup, Iterator[Member]]:
    group, members = groups.described_with_members(group_id)
    return group, visible_members(members, may_see, _topics_of)


def _topics_of(member: Member) -> set[str]:
    topics = set(member.subscribed_topic_names)
    for assignment in (member.assignment, member.target_assignment):
        topics.update(topic_partition.topic_name for topic_partition in assignment.topic_partitions)
    return topics
