from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_join_group import request as join_request
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.sync_group import sync_group
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

E = ErrorCode


def request(member_id, generation=1, assignment=b"all", **fields):
    values = {
        "group_id": "g",
        "generation_id": generation,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)],
    }
    return SyncGroupRequest(**values | fields)


@pytest.mark.parametrize("version", range(6))
async def test_every_version_returns_the_assignment(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        joined = await rig.call(join_group, join_request(), 3)
        answer = await rig.call(sync_group, request(joined.member_id), version)
        assert (answer.error_code, answer.assignment) == (E.NONE, b"all")
        assert answer.protocol_name == ("range" if version >= 5 else None)
        assert rig.groups.describe_group("g", 6)[0].group_state == "Stable"
        again = await rig.call(sync_group, request(joined.member_id, assignment=b"other"), version)
        assert again.assignment == b"all"


async def test_invalid_sync_is_refused(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        assert (await rig.call(sync_group, request("m"), 5)).error_code == E.NOT_COORDINATOR
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        assert (await rig.call(sync_group, request("m"), 5)).error_code == E.UNKNOWN_MEMBER_ID
        member_id = (await rig.call(join_group, join_request(), 3)).member_id
        for bad, code in (
            (request(member_id, 2), E.ILLEGAL_GENERATION),
            (request("other"), E.UNKNOWN_MEMBER_ID),
            (request(member_id, protocol_name=None), E.INCONSISTENT_GROUP_PROTOCOL),
            (request(member_id, protocol_name="sticky"), E.INCONSISTENT_GROUP_PROTOCOL),
            (request(member_id, group_instance_id="i"), E.UNKNOWN_MEMBER_ID),
            (request(member_id, group_id=""), E.INVALID_GROUP_ID),
        ):
            assert (await rig.call(sync_group, bad, 5)).error_code == code
