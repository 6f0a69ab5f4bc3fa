"""StreamsGroupDescribe (89): topology, members and tasks of streams groups (KIP-1071).

Versions: 1 the description of the topology (KIP-1331) and the assignor. The description of one group is consistent: the
group does not change while it is described.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trimaran.broker.groups.streams import describe
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_groups import described_groups
from trimaran.broker.handlers.loaded_groups import loaded
from trimaran.broker.handlers.streams_group_heartbeat import check_served, topics_of
from trimaran.quorum.serving.authorization import may_with_topic
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.streams_group_describe import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import groups, topics
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    request: StreamsGroupDescribeRequest, code: ErrorCode, message: str
) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(
        groups=[describe.refused(group_id, code, message) for group_id in request.group_ids]
    )


@handles(
    StreamsGroupDescribeRequest,
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
def streams_group_describe(
    request: StreamsGroupDescribeRequest, ctx: GroupContext, call: Call
) -> Handling[StreamsGroupDescribeResponse]:
    yield from loaded(ctx, request.group_ids)
    check_served(ctx)
    with_description = request.include_topology_description
    found = yield from described_groups(
        request.group_ids,
        ctx,
        call,
        partial(_described, ctx, call, with_description),
        describe.refused,
        with_operations=request.include_authorized_operations,
    )
    return StreamsGroupDescribeResponse(groups=found)


def _described(
    ctx: GroupContext, call: Call, with_description: bool, group_id: str
) -> tuple[DescribedGroup, Iterator[Member]]:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED if the topology has a topic that the client may not see."""
    groups_of_kind = ctx.groups.groups_of(streams.KIND, group_id)
    group, members = groups_of_kind.described_with_members(
        group_id, with_description=with_description
    )
    may_see = may_with_topic(ctx, call, Operation.DESCRIBE, asked_for=False)
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    if not all(may_see(name) for one in subtopologies for name in topics_of(one)):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The described group uses topics that the client is not authorized to describe.",
        )
    return group, members
