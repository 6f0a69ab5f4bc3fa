from __future__ import annotations

from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_join_group import request as join_request
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from trimaran.broker.handlers.describe_groups import describe_groups
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.list_groups import list_groups
from trimaran.broker.handlers.share_group_describe import share_group_describe
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.share_group_describe import (
    Assignment,
    ShareGroupDescribeRequest,
)

E = ErrorCode


async def described(rig, *group_ids):
    request = ShareGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=False
    )
    return (await rig.call(share_group_describe, request, 1)).groups


async def test_group_is_described_with_its_members(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        (group,) = await described(rig, "g")
        assert group.error_code == E.NOT_COORDINATOR
        await rig.leading()
        (group,) = await described(rig, "g")
        assert (group.error_code, group.error_message) == (
            E.GROUP_ID_NOT_FOUND,
            "Group g not found.",
        )
        await rig.call(share_group_heartbeat, joining(rack_id="r"), 1)
        (group,) = await described(rig, "g")
        assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
        assert group.assignor_name == "simple"
        (member,) = group.members
        assert (member.member_id, member.member_epoch, member.rack_id) == ("m", 2, "r")
        assert member.client_host == "/10.1.2.3"
        assert member.subscribed_topic_names == ["t"]
        assert member.assignment == Assignment(topic_partitions=[])


async def test_description_without_feature_is_not_served(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        await rig.leading()
        served(rig, 0)
        assert [group.error_code for group in await described(rig, "g", "h")] == [
            E.UNSUPPORTED_VERSION,
            E.UNSUPPORTED_VERSION,
        ]


async def test_other_requests_report_the_groups_kind(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(share_group_heartbeat, joining(), 1)
        (old,) = (await rig.call(describe_groups, DescribeGroupsRequest(groups=["g"]), 6)).groups
        assert (old.error_code, old.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
        assert old.error_message == "Group g is not a classic group."
        for types, found in ((["share"], ["g"]), (["classic", "consumer"], []), ([], ["g"])):
            request = ListGroupsRequest(states_filter=["stable"], types_filter=types)
            listed = (await rig.call(list_groups, request, 5)).groups
            assert [(group.group_id) for group in listed] == found
        joined = await rig.call(join_group, join_request(), 3)
        assert joined.error_code == E.INCONSISTENT_GROUP_PROTOCOL


async def test_classic_group_is_no_share_group(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(join_group, join_request(), 3)
        (group,) = await described(rig, "g")
        assert (group.error_code, group.error_message) == (
            E.GROUP_ID_NOT_FOUND,
            "Group g is not a share group.",
        )
