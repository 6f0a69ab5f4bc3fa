from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_join_group import request as join_request
from tests.broker.handlers.test_sync_group import request as sync_request
from trimaran.broker.handlers.describe_groups import _fail, describe_groups
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.sync_group import sync_group
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.header import encode_response

E = ErrorCode


@pytest.mark.parametrize("version", range(7))
async def test_every_version_describes_the_group(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        member_id = (await rig.call(join_group, join_request(), 3, client_id="me")).member_id
        request = DescribeGroupsRequest(groups=["g"])
        (before,) = (await rig.call(describe_groups, request, version)).groups
        assert (before.group_state, before.protocol_data) == ("CompletingRebalance", "")
        assert [m.member_metadata for m in before.members] == [b""]
        await rig.call(sync_group, sync_request(member_id), 3)
        (group,) = (await rig.call(describe_groups, request, version)).groups
        assert group.error_code == E.NONE
        assert (group.group_state, group.protocol_type) == ("Stable", "consumer")
        assert group.protocol_data == "range"
        (member,) = group.members
        assert (member.member_id, member.client_id) == (member_id, "me")
        assert member.client_host == "/10.1.2.3"
        assert (member.member_metadata, member.member_assignment) == (b"me", b"all")


async def test_missing_groups_are_described_as_dead(tmp_path):
    async with open_rig(tmp_path) as rig:
        request = DescribeGroupsRequest(groups=["g", ""])
        answer = await rig.call(describe_groups, request, 6)
        assert [g.error_code for g in answer.groups] == [E.NOT_COORDINATOR] * 2
        for index in range(4):
            rig.lead(index)
            await rig.loaded(index)
        for version, code in ((5, E.NONE), (6, E.GROUP_ID_NOT_FOUND)):
            answer = await rig.call(describe_groups, request, version)
            assert [g.group_state for g in answer.groups] == ["Dead"] * 2
            assert [g.error_code for g in answer.groups] == [code] * 2


async def test_authorized_operations_are_returned_on_request(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.lead(rig.index_of("g"))
        await rig.loaded(rig.index_of("g"))
        for asked, expected in ((True, 0b110101001000), (False, -(1 << 31))):
            request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=asked)
            answer = await rig.call(describe_groups, request, 5)
            assert answer.groups[0].authorized_operations == expected


async def test_longest_missing_group_id_is_described(tmp_path):
    """The error message names the group, and has a maximal length of its own."""
    async with open_rig(tmp_path) as rig:
        group_id = "g" * 32_767
        rig.lead(rig.index_of(group_id))
        await rig.loaded(rig.index_of(group_id))
        request = DescribeGroupsRequest(groups=[group_id])
        response = await rig.call(describe_groups, request, 6)
        assert len(encode_response(response, 6, 1)) > len(group_id)
        assert response.groups[0].error_message.startswith("Group ggg")


async def test_ipv6_host_is_formatted_as_in_java(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        rig.connect_from("::1")
        await rig.call(join_group, join_request(), 3, client_id="me")
        (group,) = (await rig.call(describe_groups, DescribeGroupsRequest(groups=["g"]), 5)).groups
        assert [member.client_host for member in group.members] == ["/0:0:0:0:0:0:0:1"]


def test_failure_is_reported_for_each_group():
    message = DescribeGroupsRequest(groups=["g", "h"])
    found = _fail(message, ErrorCode.REQUEST_TIMED_OUT, "why")
    assert [(group.group_id, group.error_code) for group in found.groups] == [
        ("g", ErrorCode.REQUEST_TIMED_OUT),
        ("h", ErrorCode.REQUEST_TIMED_OUT),
    ]
