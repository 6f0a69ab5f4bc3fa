"""StreamsGroupDescribe (89): topology, members and tasks of streams groups (KIP-1071).

Versions: 1 the description of the topology (KIP-1331) and the assignor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from trimaran.broker.groups.streams import describe
from trimaran.broker.groups.streams import kind as streams
from trimaran.broker.groups.streams.groups import StreamsGroups
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_kinds import DESCRIBES_GROUPS, MaySee, described_of_kind
from trimaran.broker.handlers.streams_group_heartbeat import topics_of
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.streams_group_describe import (
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
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
    access=DESCRIBES_GROUPS,
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("group_ids"),
)
def streams_group_describe(
    request: StreamsGroupDescribeRequest, ctx: GroupContext, call: Call
) -> Handling[StreamsGroupDescribeResponse]:
    found = yield from described_of_kind(
        request,
        ctx,
        call,
        streams.KIND,
        partial(_described, request.include_topology_description),
        describe.refused,
    )
    return StreamsGroupDescribeResponse(groups=found)


def _described(
    with_description: bool, groups: StreamsGroups, group_id: str, may_see: MaySee
) -> tuple[DescribedGroup, Iterator[Member]]:
    """Raises KafkaError TOPIC_AUTHORIZATION_FAILED if the topology has a topic that the client may not see."""
    group, members = groups.described_with_members(group_id, with_description=with_description)
    subtopologies = () if group.topology is None else group.topology.subtopologies or ()
    if not all(may_see(name) for one in subtopologies for name in topics_of(one)):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "The described group uses topics that the client is not authorized to describe.",
        )
    return group, members
