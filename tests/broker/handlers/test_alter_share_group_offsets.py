from __future__ import annotations

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.handlers.alter_share_group_offsets import alter_share_group_offsets
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.broker.share_state.states import ShareSummary
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from trimaran.wire.security.acls import Operation

E = ErrorCode
KEYS = [SharePartitionKey("g", TOPIC_ID, partition) for partition in range(4)]


@pytest.fixture
def states():
    return StatesInMemory()


async def alter(rig, group_id="g", **topics):
    """Returns the error of the response, or those of partitions by topic."""
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=offset
                    )
                    for index, offset in offsets.items()
                ],
            )
            for name, offsets in topics.items()
        ],
    )
    response = await rig.call(alter_share_group_offsets, request, 0)
    if response.error_code:
        return E(response.error_code)
    return {
        topic.topic_name: {p.partition_index: E(p.error_code) for p in topic.partitions}
        for topic in response.responses
    }


async def test_altered_offsets_are_stored(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        assert await alter(rig, t={0: 5}) is E.NOT_COORDINATOR
        await rig.leading()
        states.failing = {KEYS[2]: E.COORDINATOR_NOT_AVAILABLE}
        found = await alter(rig, t={0: 5, 2: 6, 9: 0}, no={0: 0})
        assert found == {
            "t": {0: E.NONE, 2: E.COORDINATOR_NOT_AVAILABLE, 9: E.UNKNOWN_TOPIC_OR_PARTITION},
            "no": {0: E.UNKNOWN_TOPIC_OR_PARTITION},
        }
        assert states.stored == {KEYS[0]: ShareSummary(1, 0, 5, None)}
        states.failing = {}
        assert await alter(rig, t={0: 5, 2: 6}) == {"t": {0: E.NONE, 2: E.NONE}}
        assert states.stored[KEYS[2]] == ShareSummary(1, 0, 6, None)
        await rig.call(share_group_heartbeat, joining(), 1)
        assert await alter(rig, t={0: 5}) is E.NON_EMPTY_GROUP


async def test_topics_without_permission_keep_their_offsets(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        await rig.leading()
        rig.context.authorizer = authorizer(Operation.READ)  # for `t` only
        found = await alter(rig, secret={0: 1}, t={0: 5})
        assert found == {"secret": {0: E.TOPIC_AUTHORIZATION_FAILED}, "t": {0: E.NONE}}


async def test_alteration_without_feature_is_not_served(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        await rig.leading()
        served(rig, 0)
        assert await alter(rig, t={0: 5}) is E.UNSUPPORTED_VERSION


async def test_group_needs_an_id(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        await rig.leading()
        assert await alter(rig, group_id="", t={0: 5}) is E.INVALID_GROUP_ID
