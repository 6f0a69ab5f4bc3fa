from __future__ import annotations

from itertools import chain

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_alter_share_group_offsets import alter
from tests.broker.handlers.test_join_group import request as join_request
from tests.broker.handlers.test_offset_commit import request as commit_request
from tests.broker.handlers.test_offset_commit import topic
from tests.broker.handlers.test_share_group_heartbeat import again, joining, served
from trimaran.broker.handlers.delete_groups import delete_groups
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest

E = ErrorCode


@pytest.mark.parametrize("version", range(4))
async def test_every_version_deletes_groups(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        for index in range(3):
            rig.lead(index)
            await rig.loaded(index)
        elsewhere = next(f"e{i}" for i in range(99) if rig.index_of(f"e{i}") == 3)
        there = [f"s{i}" for i in range(99) if rig.index_of(f"s{i}") < 3][:3]
        member = next(f"m{i}" for i in range(99) if rig.index_of(f"m{i}") < 3)
        for group in there:
            await rig.call(offset_commit, commit_request(topic({0: 1}), group_id=group), 9)
        await rig.call(join_group, join_request(group_id=member), 3)
        missing = next(f"x{i}" for i in range(99) if rig.index_of(f"x{i}") < 3)
        request = DeleteGroupsRequest(groups_names=[*there, there[0], elsewhere, member, missing])
        answer = await rig.call(delete_groups, request, version)
        assert {r.group_id: E(r.error_code) for r in answer.results} == {
            **dict.fromkeys(there, E.NONE),
            elsewhere: E.NOT_COORDINATOR,
            member: E.NON_EMPTY_GROUP,
            missing: E.GROUP_ID_NOT_FOUND,
        }
        assert len(answer.results) == 6
        assert {r.error_message for r in answer.results} == {None}
        assert [g.group_id for g in [*chain.from_iterable(rig.groups.list_groups((), ()))]] == [
            member
        ]


async def test_unreplicated_deletion_times_out(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        await rig.call(offset_commit, commit_request(topic({0: 1})), 9)
        leader.holding = True
        answer = await rig.call(delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2)
        assert [r.error_code for r in answer.results] == [E.COORDINATOR_NOT_AVAILABLE]


async def delete_group(rig):
    answer = await rig.call(delete_groups, DeleteGroupsRequest(groups_names=["g"]), 2)
    return [(result.group_id, E(result.error_code)) for result in answer.results]


async def test_states_are_deleted_before_their_group(tmp_path, autojump_clock):
    states, key = StatesInMemory(), SharePartitionKey("g", TOPIC_ID, 1)
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        await rig.leading()
        await alter(rig, t={0: 5, 1: 6})
        states.failing = {key: E.COORDINATOR_NOT_AVAILABLE}
        assert await delete_group(rig) == [("g", E.COORDINATOR_NOT_AVAILABLE)]
        assert states.stored.keys() == {key}
        states.failing = {}
        await rig.call(share_group_heartbeat, joining(subscribed_topic_names=["no"]), 1)
        assert await delete_group(rig) == [("g", E.NON_EMPTY_GROUP)]
        await rig.call(share_group_heartbeat, again(-1), 1)
        assert await delete_group(rig) == [("g", E.NONE)]
        assert states.stored == {}
        assert await delete_group(rig) == [("g", E.GROUP_ID_NOT_FOUND)]


async def test_states_of_many_groups_are_deleted_together(tmp_path, autojump_clock):
    """A group is kept if one of its states could not be deleted; the others are gone."""
    states, names = StatesInMemory(), [f"g{number}" for number in range(60)]
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        await rig.leading()
        for name in names:
            await alter(rig, name, t={0: 5, 1: 6})
        names = sorted({key.group_id for key in states.stored})  # this broker coordinates them
        assert 2 * len(names) == len(states.stored) > 20
        stays = SharePartitionKey(names[1], TOPIC_ID, 1)
        states.failing = {stays: E.COORDINATOR_NOT_AVAILABLE}
        states.most = 0
        request = DeleteGroupsRequest(groups_names=names)
        answer = await rig.call(delete_groups, request, 2)
        assert states.most == len(names) * 2
        assert {result.group_id: E(result.error_code) for result in answer.results} == {
            **dict.fromkeys(names, E.NONE),
            stays.group_id: E.COORDINATOR_NOT_AVAILABLE,
        }
        assert states.stored.keys() == states.failing.keys()
