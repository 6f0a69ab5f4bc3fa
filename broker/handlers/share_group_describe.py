"""ShareGroupDescribe (77): members of share groups with their assignments (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.broker.groups.share import describe
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.groups import ShareGroups
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.handlers.described_kinds import (
    DESCRIBES_GROUPS,
    MaySee,
    described_of_kind,
    visible_members,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.once import Once
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    request: ShareGroupDescribeRequest, code: ErrorCode, message: str
) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[describe.refused(group_id, code, message) for group_id in request.group_ids]
    )


@handles(
    ShareGroupDescribeRequest,
    versions="1",
    access=DESCRIBES_GROUPS,
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
    once=Once("group_ids"),
)
def share_group_describe(
    request: ShareGroupDescribeRequest, ctx: GroupContext, call: Call
) -> Handling[ShareGroupDescribeResponse]:
    found = yield from described_of_kind(
        request, ctx, call, share.KIND, _described, describe.refused
    )
    return ShareGroupDescribeResponse(groups=found)


def _described(
    groups: ShareGroups, group_id: str, may_see: MaySee
) -> tuple[DescribedGroup, Iterator[Member]]:
    group, members = groups.described_with_members(group_id)
    return group, visible_members(members, may_see, _topics_of)


def _topics_of(member: Member) -> set[str]:
    assigned = (mine.topic_name for mine in member.assignment.topic_partitions)
    return {*member.subscribed_topic_names, *assigned}
