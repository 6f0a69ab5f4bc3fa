from __future__ import annotations

import pytest

from tests.broker.calls import call, carried_out
from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_join_group import request as join_request
from tests.broker.handlers.test_offset_commit import request as commit_request
from tests.broker.handlers.test_offset_commit import topic
from tests.broker.rooms import NotedRoom
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.list_groups import GROUPS_PER_STEP, list_groups
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.scheduling.effects import Wait


@pytest.mark.parametrize("version", range(6))
async def test_every_version_lists_groups(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        for index in range(4):
            rig.lead(index)
            await rig.loaded(index)
        await rig.call(join_group, join_request(), 3)
        await rig.call(offset_commit, commit_request(topic({0: 1}), group_id="simple"), 9)
        answer = await rig.call(list_groups, ListGroupsRequest(), version)
        assert answer.error_code == ErrorCode.NONE
        listed = {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups}
        state = ("CompletingRebalance", "Empty") if version >= 4 else ("", "")
        kind = "classic" if version >= 5 else ""
        assert listed == {"g": ("consumer", state[0], kind), "simple": ("", state[1], kind)}


async def test_filters_select_groups(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        for index in range(4):
            rig.lead(index)
            await rig.loaded(index)
        await rig.call(join_group, join_request(), 3)
        await rig.call(offset_commit, commit_request(topic({0: 1}), group_id="simple"), 9)
        for states, types, expected in (
            (["empty"], [], ["simple"]),
            ([" Empty", "completingrebalance "], [], ["g", "simple"]),
            (["Stable"], [], []),
            ([], ["CLASSIC", "share"], ["g", "simple"]),
            ([], ["consumer"], []),
            ([], ["nonsense"], []),
            ([], [" classic "], []),
        ):
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            answer = await rig.call(list_groups, request, 5)
            assert sorted(g.group_id for g in answer.groups) == expected


async def test_listing_reserves_memory_and_yields_each_step(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        for index in range(4):
            rig.lead(index)
            await rig.loaded(index)
        for name in ("a", "b", "c"):
            await rig.call(offset_commit, commit_request(topic({0: 1}), group_id=name), 9)
        message = ListGroupsRequest()
        asked = call(message, 5)
        room = NotedRoom(asked)
        steps = [len(some) for some in rig.groups.list_groups([], [])]
        effects = []
        await carried_out(list_groups(message, rig.context, asked), effects)
        waits, *boundaries = effects
        assert isinstance(waits, Wait)
        assert boundaries == [None] * (1 + sum(steps) + len(steps))
        step = ("expect", GROUPS_PER_STEP * OBJECT_BYTES)
        assert (sum(steps), room.noted) == (3, [step] * (1 + len(steps)))
