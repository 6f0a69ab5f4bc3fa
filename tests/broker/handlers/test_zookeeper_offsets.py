"""Version 0 of OffsetCommit and OffsetFetch. For its use of ZooKeeper see
`tests/zkcompat/legacy/test_consumer_offsets.py`.
"""

from __future__ import annotations

import pytest
import trio

from tests.broker.groups.rig import open_rig
from trimaran.broker.groups.zookeeper_offsets import UNAVAILABLE
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.broker.handlers.registry import broker_registry
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

E = ErrorCode
KEYS = (OffsetCommitRequest.KEY, OffsetFetchRequest.KEY)


class Stored:
    """An offset store that a test can inspect and break."""

    def __init__(self):
        self.offsets = {}
        self.error = None

    async def commit(self, group, offsets):
        await trio.lowlevel.checkpoint()
        if self.error:
            raise self.error
        self.offsets.setdefault(group, {}).update(offsets)

    async def fetch(self, group, partitions):
        await trio.lowlevel.checkpoint()
        if self.error:
            raise self.error
        known = self.offsets.get(group, {})
        return {key: known[key] for key in partitions if key in known}


@pytest.fixture
async def rig(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.context.zookeeper_offsets = Stored()
        yield rig


async def commit(rig, offsets, name="t", metadata="", group="g"):
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=p, committed_offset=o, committed_metadata=metadata
        )
        for p, o in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(name=name, partitions=partitions)
    answer = await rig.call(offset_commit, OffsetCommitRequest(group_id=group, topics=[topic]), 0)
    return {p.partition_index: E(p.error_code) for t in answer.topics for p in t.partitions}


async def fetch(rig, *partitions, name="t", group="g"):
    topic = OffsetFetchRequestTopic(name=name, partition_indexes=list(partitions))
    answer = await rig.call(offset_fetch, OffsetFetchRequest(group_id=group, topics=[topic]), 0)
    (topic,) = answer.topics
    return {
        p.partition_index: (p.committed_offset, E(p.error_code), p.metadata)
        for p in topic.partitions
    }


async def test_committed_offset_is_fetched_without_a_coordinator(rig):
    assert await commit(rig, {0: 5, 3: 0}) == {0: E.NONE, 3: E.NONE}
    assert rig.context.zookeeper_offsets.offsets == {"g": {("t", 0): 5, ("t", 3): 0}}
    assert await fetch(rig, 0, 1, 3) == {
        0: (5, E.NONE, ""),
        1: (-1, E.UNKNOWN_TOPIC_OR_PARTITION, ""),
        3: (0, E.NONE, ""),
    }


async def test_missing_topic_is_neither_stored_nor_read(rig):
    assert await commit(rig, {0: 1, 4: 1}) == {0: E.NONE, 4: E.UNKNOWN_TOPIC_OR_PARTITION}
    assert await commit(rig, {0: 1}, name="none") == {0: E.UNKNOWN_TOPIC_OR_PARTITION}
    assert rig.context.zookeeper_offsets.offsets == {"g": {("t", 0): 1}}
    rig.context.zookeeper_offsets.offsets["g"]["none", 0] = 7
    assert await fetch(rig, 0, name="none") == {0: (-1, E.UNKNOWN_TOPIC_OR_PARTITION, "")}


async def test_offsets_are_checked_as_those_in_kafka(rig):
    assert await commit(rig, {0: 1}, metadata="m" * 4097) == {0: E.OFFSET_METADATA_TOO_LARGE}
    assert not rig.context.zookeeper_offsets.offsets.get("g")
    assert await commit(rig, {0: -2}) == {0: E.NONE}
    assert await fetch(rig, 0) == {0: (-2, E.NONE, "")}


async def test_non_numeric_offset_is_an_error(rig):
    rig.context.zookeeper_offsets.offsets["g"] = {("t", 0): None}
    assert await fetch(rig, 0) == {0: (-1, E.UNKNOWN_SERVER_ERROR, "")}


@pytest.mark.parametrize("code", [UNAVAILABLE, E.INVALID_GROUP_ID])
async def test_zookeeper_error_applies_to_every_partition(rig, code):
    rig.context.zookeeper_offsets.error = KafkaError(code)
    assert await commit(rig, {0: 1, 4: 1}) == {0: code, 4: E.UNKNOWN_TOPIC_OR_PARTITION}
    assert await fetch(rig, 0, 4) == {
        0: (-1, code, ""),
        4: (-1, E.UNKNOWN_TOPIC_OR_PARTITION, ""),
    }


def test_version_0_is_advertised_where_it_is_served():
    """KIP-35: a client uses the highest version that both support, so this hides nothing from newer clients."""
    without = broker_registry().api_versions()
    served = broker_registry(zookeeper_offsets=True).api_versions()
    assert [without[key].low for key in KEYS] == [1, 1]
    assert [served[key].low for key in KEYS] == [0, 0]
    assert [served[key].high for key in KEYS] == [without[key].high for key in KEYS]
