from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_join_group import request as join_request
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.leave_group import leave_group
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity

E = ErrorCode


def request(*member_ids, version, group="g"):
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=member_ids[0])
    members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
    return LeaveGroupRequest(group_id=group, members=members)


@pytest.mark.parametrize("version", range(6))
async def test_every_version_leaves(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        member_id = (await rig.call(join_group, join_request(), 3)).member_id
        unknown = await rig.call(leave_group, request("other", version=version), version)
        left = await rig.call(leave_group, request(member_id, version=version), version)
        if version < 3:
            assert (unknown.error_code, left.error_code) == (E.UNKNOWN_MEMBER_ID, E.NONE)
        else:
            assert (unknown.error_code, left.error_code) == (E.NONE, E.NONE)
            assert [m.error_code for m in unknown.members] == [E.UNKNOWN_MEMBER_ID]
            assert [(m.member_id, m.error_code) for m in left.members] == [(member_id, E.NONE)]
        assert rig.groups.describe_group("g", 6)[0].group_state == "Empty"


async def test_several_members_leave_at_once(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        member_id = (await rig.call(join_group, join_request(), 3)).member_id
        answer = await rig.call(leave_group, request(member_id, "x", member_id, version=5), 5)
        assert [m.error_code for m in answer.members] == [E.NONE, *[E.UNKNOWN_MEMBER_ID] * 2]
        nobody = await rig.call(leave_group, LeaveGroupRequest(group_id="g"), 5)
        assert (nobody.error_code, nobody.members) == (E.NONE, [])


async def test_other_broker_is_not_coordinator(tmp_path):
    async with open_rig(tmp_path) as rig:
        for version in (1, 5):
            answer = await rig.call(leave_group, request("m", version=version), version)
            assert answer.error_code == E.NOT_COORDINATOR
