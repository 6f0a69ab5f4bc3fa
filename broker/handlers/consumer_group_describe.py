"""ConsumerGroupDescribe (69): members of groups of the consumer protocol, what they have, and their target (KIP-848).

Versions: 1 which protocol a member speaks (KIP-1099). Large groups are described in a thread: they do not change under
it.
"""

from __future__ import annotations

from functools import partial

from broker.groups.consumer import describe
from broker.groups.consumer.group import ConsumerGroup
from broker.handlers.consumer_group_heartbeat import check_served
from broker.handlers.context import Context
from broker.handlers.loaded_groups import when_loaded
from quorum.serving.authorization import may_with_topic
from quorum.serving.authorized_operations import authorized_operations
from wire.errors import ErrorCode
from wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from wire.security.acls import Operation, ResourceType
from wire.transport.access import groups, topics
from wire.transport.calls import Call, DeferredResponse
from wire.transport.heavy import PARTITIONS_ELEMENTS_MAX, run_apart
from wire.transport.registry import handles
from wire.transport.slices import Slices

# Members that are described on the loop: some 20 µs each.
INLINE_MEMBERS_MAX = 500


def _fail(
    request: ConsumerGroupDescribeRequest, code: ErrorCode, message: str
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[describe.refused(group_id, code, message or None) for group_id in request.group_ids]
    )


@handles(
    ConsumerGroupDescribeRequest,
    versions="0-1",
    access=(
        groups(Operation.DESCRIBE, "group_ids.*", "groups"),
        topics(Operation.DESCRIBE, "group_ids.*").in_handler(
            "a group with topics that may not be seen is left out"
        ),
    ),
    on_error=_fail,
    slices=Slices("group_ids", "groups"),
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
@when_loaded(lambda request: request.group_ids, _fail)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, ctx: Context, call: Call
) -> ConsumerGroupDescribeResponse | DeferredResponse[ConsumerGroupDescribeResponse]:
    check_served(ctx)
    found = ctx.groups.find_consumer_groups(request.group_ids)

    def described() -> list[DescribedGroup]:
        return [
            ctx.groups.describe_consumer_group(one) if isinstance(one, ConsumerGroup) else one
            for one in found
        ]

    def respond(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        """On the loop: the authorizer is no thread's."""
        return ConsumerGroupDescribeResponse(
            groups=[_seen_by(one, request, ctx, call) for one in groups]
        )

    async def finish() -> ConsumerGroupDescribeResponse:
        return respond(await run_apart(described))

    if sum(len(one.members) for one in found) <= INLINE_MEMBERS_MAX:
        return respond(described())
    return DeferredResponse(finish, on_error=partial(_fail, request))


def _seen_by(
    group: DescribedGroup, request: ConsumerGroupDescribeRequest, ctx: Context, call: Call
) -> DescribedGroup:
    if group.error_code:
        return group
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
    if not all(map(may_see, _topics_of(group))):
        return describe.refused(
            group.group_id,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The group has described topic(s) that the client is not authorized to describe.",
        )
    if request.include_authorized_operations:
        group.authorized_operations = authorized_operations(
            ctx, call, ResourceType.GROUP, group.group_id
        )
    return group


def _topics_of(group: DescribedGroup) -> set[str]:
    topics: set[str] = set()
    for member in group.members:
        topics.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            topics.update(one.topic_name for one in assignment.topic_partitions)
    return topics
