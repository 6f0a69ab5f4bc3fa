from __future__ import annotations

import pytest

from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_join_group import request as join_request
from trimaran.broker.handlers.heartbeat import heartbeat
from trimaran.broker.handlers.join_group import join_group
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.heartbeat import HeartbeatRequest

E = ErrorCode


def request(member_id, generation=1, group="g"):
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)


@pytest.mark.parametrize("version", range(5))
async def test_every_version_checks_the_generation(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        assert (await rig.call(heartbeat, request("m"), version)).error_code == E.NOT_COORDINATOR
        index = rig.index_of("g")
        rig.lead(index)
        assert (await rig.call(heartbeat, request("m"), version)).error_code == E.NONE  # loading
        await rig.loaded(index)
        member_id = (await rig.call(join_group, join_request(), 3)).member_id
        for beat, code in (
            (request(member_id), E.NONE),
            (request(member_id, 7), E.ILLEGAL_GENERATION),
            (request("other"), E.UNKNOWN_MEMBER_ID),
            (request(member_id, group="other"), E.NOT_COORDINATOR),
            (request(member_id, group=""), E.INVALID_GROUP_ID),
        ):
            assert (await rig.call(heartbeat, beat, version)).error_code == code
