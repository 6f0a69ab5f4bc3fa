from __future__ import annotations

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_alter_share_group_offsets import alter
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.handlers.delete_share_group_offsets import delete_share_group_offsets
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponseTopic,
)
from trimaran.wire.security.acls import Operation

E = ErrorCode
KEYS = [SharePartitionKey("g", TOPIC_ID, partition) for partition in range(4)]


@pytest.fixture
def states():
    return StatesInMemory()


async def delete_offsets(rig, *names):
    topics = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    request = DeleteShareGroupOffsetsRequest(group_id="g", topics=topics)
    response = await rig.call(delete_share_group_offsets, request, 0)
    return E(response.error_code) if response.error_code else response.responses


async def test_deleted_offsets_are_removed(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        await rig.leading()
        assert await delete_offsets(rig, "t") is E.GROUP_ID_NOT_FOUND
        await alter(rig, t={0: 5})
        states.failing = {KEYS[0]: E.COORDINATOR_NOT_AVAILABLE}
        [failed] = await delete_offsets(rig, "t")
        assert (failed.topic_name, failed.error_code) == ("t", E.COORDINATOR_NOT_AVAILABLE)
        assert states.stored.keys() == {KEYS[0]}
        states.failing = {}
        assert await delete_offsets(rig, "t", "no") == [
            DeleteShareGroupOffsetsResponseTopic(topic_name="t", topic_id=TOPIC_ID),
            DeleteShareGroupOffsetsResponseTopic(
                topic_name="no",
                topic_id=bytes(16),
                error_code=E.UNKNOWN_TOPIC_OR_PARTITION,
                error_message="This server does not host this topic-partition.",
            ),
        ]
        assert states.stored == {}
        await rig.call(share_group_heartbeat, joining(), 1)
        assert await delete_offsets(rig, "t") is E.NON_EMPTY_GROUP


async def test_topics_without_permission_are_refused_alone(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        await rig.leading()
        await alter(rig, t={0: 5})
        rig.context.authorizer = authorizer(Operation.READ)  # for `t` only
        found = await delete_offsets(rig, "secret", "t")
        assert {one.topic_name: E(one.error_code) for one in found} == {
            "secret": E.TOPIC_AUTHORIZATION_FAILED,
            "t": E.NONE,
        }


async def test_deletion_without_feature_is_not_served(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        await rig.leading()
        served(rig, 0)
        assert await delete_offsets(rig, "t") is E.UNSUPPORTED_VERSION
