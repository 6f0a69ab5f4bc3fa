"""ConsumerGroupDescribe (69): members of consumer groups with their current and target assignments (KIP-848).

Versions: 1 the protocol of each member (KIP-1099). The description of one group is consistent: the group does not
change while it is described.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trimaran.broker.groups.consumer import describe
from trimaran.broker.groups.consumer import kind as consumer
from trimaran.broker.handlers.consumer_group_heartbeat import check_served
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_groups import described_groups, visible_members
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
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
    access=(
        groups(Operation.DESCRIBE, "group_ids.*", "groups"),
        topics(Operation.DESCRIBE, "group_ids.*").in_handler(
            "a group with hidden topics is omitted"
        ),
    ),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("group_ids"),
)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: GroupContext, call: Call
) -> Handling[ConsumerGroupDescribeResponse]:
    yield from loaded(ctx, request.group_ids)
    check_served(ctx)
    found = yield from described_groups(
        request.group_ids,
        ctx,
        call,
        partial(_described, ctx, call),
        describe.refused,
        with_operations=request.include_authorized_operations,
    )
    return ConsumerGroupDescribeResponse(groups=found)


def _described(
    ctx: GroupContext, call: Call, group_id: str
) -> tuple[DescribedGroup, Iterator[Member]]:
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
    groups_of_kind = ctx.groups.groups_of(consumer.KIND, group_id)
    group, members = groups_of_kind.described_with_members(group_id)
    return group, visible_members(members, may_see, _topics_of)


def _topics_of(member: Member) -> set[str]:
    topics = set(member.subscribed_topic_names)
    for assignment in (member.assignment, member.target_assignment):
        topics.update(topic_partition.topic_name for topic_partition in assignment.topic_partitions)
    return topics
