from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_alter_share_group_offsets import alter
from tests.broker.handlers.test_share_group_heartbeat import served
from tests.broker.handlers.test_topic_access import authorizer
from trimaran.broker.handlers.describe_share_group_offsets import describe_share_group_offsets
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.share_state.states import ShareSummary
from trimaran.quorum.metadata.image import TopicsImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey, TopicPartition
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

E = ErrorCode
KEYS = [SharePartitionKey("g", TOPIC_ID, partition) for partition in range(4)]
AUTH = E.TOPIC_AUTHORIZATION_FAILED


class Ends:
    """`LatestOffsets` with the given ends."""

    def __init__(self, **ends):
        self.asked = []
        self.ends = {TopicPartition("t", int(index[1:])): end for index, end in ends.items()}

    def asking(self, keys):
        self.asked += keys
        return {key: self.ends[key] for key in keys}
        yield


def partition(index, start=-1, leader_epoch=0, lag=-1, code=E.NONE):
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=start,
        leader_epoch=leader_epoch,
        lag=lag,
        error_code=code,
        error_message=code.sentence if code else None,
    )


async def describe(rig, version=1, **topics):
    """Describes group g in these topics, or in all."""
    asked = [
        DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=list(partitions))
        for name, partitions in topics.items()
    ]
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=asked or None)
    request = DescribeShareGroupOffsetsRequest(groups=[group])
    (found,) = (await rig.call(describe_share_group_offsets, request, version)).groups
    if found.error_code:
        return E(found.error_code)
    return [(one.topic_name, one.topic_id, one.partitions) for one in found.topics]


@pytest.fixture
def states():
    return StatesInMemory()


async def test_named_partitions_have_position_and_lag(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        rig.context.latest_offsets = ends = Ends(p0=20, p3=E.NOT_LEADER_OR_FOLLOWER)
        states.stored = {
            KEYS[0]: ShareSummary(1, 7, 5, 3),
            KEYS[1]: ShareSummary(1, 8, 6, None),
            KEYS[3]: ShareSummary(1, 9, 2, 0),
        }
        states.failing = {KEYS[2]: E.COORDINATOR_NOT_AVAILABLE}
        await rig.leading()
        found = await describe(rig, no=[0], t=[0, 1, 2, 3, 0])
        assert found == [
            (
                "t",
                TOPIC_ID,
                [
                    partition(0, 5, 7, 12),
                    partition(1, 6, 8),
                    partition(2),
                    partition(3, 0, code=E.NOT_LEADER_OR_FOLLOWER),
                ],
            ),
            ("no", bytes(16), [partition(0)]),
        ]
        assert ends.asked == [TopicPartition("t", 0), TopicPartition("t", 3)]
        (_, _, [old]), _ = await describe(rig, 0, t=[0], no=[0])
        assert (old.start_offset, old.lag) == (5, -1)


async def test_unknown_start_has_no_lag(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        rig.context.latest_offsets = ends = Ends()
        states.stored = {
            KEYS[0]: ShareSummary(1, 7, None, 3),
            KEYS[1]: ShareSummary(1, 8, None, None),
        }
        await rig.leading()
        found = await describe(rig, t=[0, 1])
        assert found == [("t", TOPIC_ID, [partition(0, -1, 7), partition(1, -1, 8)])]
        assert ends.asked == []


async def test_all_initialized_partitions_are_described(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        rig.context.latest_offsets = Ends()
        assert await describe(rig) is E.NOT_COORDINATOR
        await rig.leading()
        assert await describe(rig) == []
        await alter(rig, t={2: 5, 1: 6})
        assert await describe(rig) == [("t", TOPIC_ID, [partition(1, 6), partition(2, 5)])]
        rig.context.authorizer = authorizer()  # allows `t` only
        found = await describe(rig, secret=[4], t=[2])
        assert found == [
            ("t", TOPIC_ID, [partition(2, 5)]),
            ("secret", bytes(16), [partition(4, 0, code=AUTH)]),
        ]


async def test_each_group_has_its_own_result(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        served(rig)
        rig.context.latest_offsets = Ends()
        await rig.leading()
        await alter(rig, t={3: 5})
        other = next(name for name in "hijklm" if rig.index_of(name) != rig.index_of("g"))
        groups = [
            DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
            for group_id in (other, "g")
        ]
        request = DescribeShareGroupOffsetsRequest(groups=groups)
        code = E.NOT_COORDINATOR
        assert (await rig.call(describe_share_group_offsets, request, 1)).groups == [
            DescribeShareGroupOffsetsResponseGroup(
                group_id=other, topics=[], error_code=code, error_message=code.sentence
            ),
            DescribeShareGroupOffsetsResponseGroup(
                group_id="g",
                topics=[
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name="t", topic_id=TOPIC_ID, partitions=[partition(3, 5)]
                    )
                ],
            ),
        ]
        image = rig.metadata.image
        rig.metadata.image = replace(image, topics=TopicsImage())
        assert await describe(rig) == []


async def test_description_without_feature_is_not_served(tmp_path, states, autojump_clock):
    async with open_rig(tmp_path, share_states=states) as rig:
        await rig.leading()
        served(rig, 0)
        assert await describe(rig, t=[0]) is E.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("asked", "kept"),
    [
        ([("g", {"t": [0, 0]}), ("g", {"t": [1, 0]})], [("g", {"t": [0, 1]})]),
        ([("g", {"t": [0]}), ("h", {"t": [0]})], [("g", {"t": [0]}), ("h", {"t": [0]})]),
        ([("g", {"t": [0]}), ("g", {"u": [0]})], [("g", {"t": [0], "u": [0]})]),
        ([("g", {"t": [0]}), ("g", None), ("g", {"u": [0]})], [("g", None)]),
        ([("g", {})], [("g", {})]),
    ],
)
def test_items_named_twice_are_asked_once(asked, kept):
    handled = broker_registry().handled()[DescribeShareGroupOffsetsRequest.KEY]
    assert handled.once(naming(asked)) == naming(kept)


def naming(asked):
    return DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(
                group_id=group_id,
                topics=None
                if topics is None
                else [
                    DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
                    for name, indexes in topics.items()
                ],
            )
            for group_id, topics in asked
        ]
    )
