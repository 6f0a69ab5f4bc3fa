from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig, topic_image
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.handlers.alter_share_group_offsets import alter_share_group_offsets
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.broker.share_state.states import ShareSummary
from trimaran.quorum.metadata.image import TopicsImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from trimaran.wire.security.acls import Operation

E = ErrorCode
KEYS = [SharePartitionKey("g", TOPIC_ID, partition) for partition in range(4)]


@pytest.fixture
def states():
    return StatesInMemory()


async def altering(rig, group_id="g", **topics):
    """Returns the response."""
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
    return await rig.call(alter_share_group_offsets, request, 0)


async def alter(rig, group_id="g", **topics):
    """Returns the error of the response, or those of partitions by topic."""
    response = await altering(rig, group_id, **topics)
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
        rig.context.authorizer = authorizer(Operation.READ)  # allows `t` only
        found = await alter(rig, secret={0: 1}, t={0: 5})
        assert found == {"secret": {0: E.TOPIC_AUTHORIZATION_FAILED}, "t": {0: E.NONE}}


def result(index, code=E.NONE, message=None):
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=code, error_message=message
    )


async def test_each_partition_has_its_code_and_message(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        image = rig.metadata.image
        secret = topic_image("secret", b"s" * 16, 2)
        rig.metadata.image = replace(
            image,
            topics=TopicsImage(
                by_name=image.topics.by_name.set("secret", secret),
                by_id=image.topics.by_id.set(secret.id, secret),
            ),
        )
        await rig.leading()
        rig.context.authorizer = authorizer(Operation.READ)  # allows `t` only
        failure = E.COORDINATOR_NOT_AVAILABLE
        states.failing = dict.fromkeys(KEYS[1:3], failure)
        found = await altering(rig, t={0: 5, 1: 6, 2: -2, 4: 0}, secret={1: 1, 0: 1}, hidden={3: 0})
        denied, unknown = E.TOPIC_AUTHORIZATION_FAILED, E.UNKNOWN_TOPIC_OR_PARTITION
        host = "This server does not host this topic-partition."
        assert found == AlterShareGroupOffsetsResponse(
            responses=[
                AlterShareGroupOffsetsResponseTopic(
                    topic_name="secret",
                    topic_id=b"s" * 16,
                    partitions=[result(index, denied, denied.sentence) for index in (1, 0)],
                ),
                AlterShareGroupOffsetsResponseTopic(
                    topic_name="hidden",
                    topic_id=bytes(16),
                    partitions=[result(3, denied, denied.sentence)],
                ),
                AlterShareGroupOffsetsResponseTopic(
                    topic_name="t",
                    topic_id=TOPIC_ID,
                    partitions=[
                        result(0),
                        result(1, failure, failure.sentence),
                        result(2, E.INVALID_REQUEST, E.INVALID_REQUEST.sentence),
                        result(4, unknown, host),
                    ],
                ),
            ]
        )
        rig.context.authorizer = None
        assert (await altering(rig, no={1: 0})).responses == [
            AlterShareGroupOffsetsResponseTopic(
                topic_name="no", topic_id=bytes(16), partitions=[result(1, unknown, host)]
            )
        ]


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
