from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig, topic_image
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_alter_share_group_offsets import alter
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.groups.share import kind as share
from trimaran.broker.handlers.delete_share_group_offsets import delete_share_group_offsets
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.quorum.metadata.image import TopicsImage
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
        rig.context.authorizer = authorizer(Operation.READ)  # allows `t` only
        found = await delete_offsets(rig, "secret", "t")
        denied = E.TOPIC_AUTHORIZATION_FAILED
        assert found == [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name="secret",
                topic_id=bytes(16),
                error_code=denied,
                error_message=denied.sentence,
            ),
            DeleteShareGroupOffsetsResponseTopic(topic_name="t", topic_id=TOPIC_ID),
        ]


async def test_failure_of_one_topic_spares_the_other(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        other = topic_image("u", b"u" * 16, 2)
        topics = rig.metadata.image.topics
        rig.metadata.image = replace(
            rig.metadata.image,
            topics=TopicsImage(
                by_name=topics.by_name.set("u", other), by_id=topics.by_id.set(other.id, other)
            ),
        )
        await rig.leading()
        await alter(rig, t={0: 5, 1: 5}, u={1: 7})
        failure = E.COORDINATOR_NOT_AVAILABLE
        states.failing = {KEYS[0]: failure}
        assert await delete_offsets(rig, "t", "u") == [
            DeleteShareGroupOffsetsResponseTopic(
                topic_name="t",
                topic_id=TOPIC_ID,
                error_code=failure,
                error_message=failure.sentence,
            ),
            DeleteShareGroupOffsetsResponseTopic(topic_name="u", topic_id=b"u" * 16),
        ]
        known = rig.groups.groups_of(share.KIND, "g").find("g").known_states
        assert (known.initialized, known.deleting) == ({}, {TOPIC_ID: "t"})
        assert states.stored.keys() == {KEYS[0]}


async def test_deletion_without_feature_is_not_served(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        await rig.leading()
        served(rig, 0)
        assert await delete_offsets(rig, "t") is E.UNSUPPORTED_VERSION
