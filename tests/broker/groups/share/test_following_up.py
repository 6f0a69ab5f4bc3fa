"""The coordinator of share groups initializes the states of their partitions."""

from __future__ import annotations

import pytest
import trio

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.groups.share.states import StatesInMemory
from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.groups import ShareHeartbeat
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.share_state.states import ShareSummary
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

E = ErrorCode
KEYS = [SharePartitionKey("g", TOPIC_ID, partition) for partition in range(4)]


@pytest.fixture
def states():
    return StatesInMemory()


async def beat(rig, epoch: int) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=epoch,
        subscribed_topic_names=["t"] if epoch == 0 else None,
    )
    given = ShareHeartbeat(request, "c", "/here")
    return await rig.groups.member_heartbeat(share.KIND, "g", given).wait()


async def test_member_gets_partitions_after_their_initialization(
    tmp_path, states, monkeypatch, autojump_clock
):
    monkeypatch.setattr(share, "DEFAULTS", ShareGroupSettings(assignment_interval_ms=0))
    async with open_rig(tmp_path, share_states=states) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        states.failing = {KEYS[3]: E.COORDINATOR_NOT_AVAILABLE}
        joined = await beat(rig, 0)
        assert joined.assignment.topic_partitions == []
        await trio.sleep(1)
        assert states.stored == dict.fromkeys(KEYS[:3], ShareSummary(2, 0, None, None))
        states.failing = {}
        assert (await beat(rig, joined.member_epoch)).member_epoch == joined.member_epoch
        await trio.sleep(1)
        assert states.stored == dict.fromkeys(KEYS, ShareSummary(2, 0, None, None))
        [given] = (await beat(rig, joined.member_epoch)).assignment.topic_partitions
        assert (given.topic_id, given.partitions) == (TOPIC_ID, [0, 1, 2, 3])


async def test_uncommitted_initialization_does_not_begin(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        leader.failing = E.NOT_ENOUGH_REPLICAS
        with pytest.raises(Exception, match="COORDINATOR_NOT_AVAILABLE"):
            await beat(rig, 0)
        await trio.sleep(1)
        assert states.stored == {}
        leader.failing = None
        await beat(rig, 0)
        await trio.sleep(1)
        assert states.stored.keys() == set(KEYS)


async def test_nothing_is_initialized_without_share_coordinators(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        await beat(rig, 0)
        await trio.sleep(1)
        states = rig.groups.groups_of(share.KIND, "g").find("g").known_states
        assert states.initializing.keys() == {TOPIC_ID}
        assert states.initialized == {}
