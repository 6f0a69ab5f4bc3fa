"""OffsetDelete: which partitions are deleted, in batches, and how refused topics are answered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import answered, call
from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_offset_commit import request as commit_request
from tests.broker.handlers.test_offset_commit import topic
from tests.cluster.data_side import partition, topics_image
from tests.cluster.data_side import topic as topic_image
from trimaran.broker.handlers.batches import PARTITIONS_PER_BATCH
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_delete import _fail, offset_delete
from trimaran.node.replicated.pending import PendingResponse
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

E = ErrorCode


def request(partitions, group="g"):
    topics = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(OffsetDeleteRequestPartition(partition_index=index))
    return OffsetDeleteRequest(
        group_id=group,
        topics=[OffsetDeleteRequestTopic(name=n, partitions=p) for n, p in topics.items()],
    )


async def test_offsets_are_deleted_or_refused_individually(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        await rig.call(offset_commit, commit_request(topic({0: 1, 1: 2})), 9)
        asked = request([("t", 0), ("t", 2), ("t", 9), ("none", 0)])
        answer = await rig.call(offset_delete, asked, 0)
        assert answer.error_code == E.NONE
        assert [
            (t.name, p.partition_index, E(p.error_code))
            for t in answer.topics
            for p in t.partitions
        ] == [
            ("t", 0, E.NONE),
            ("t", 2, E.NONE),
            ("t", 9, E.UNKNOWN_TOPIC_OR_PARTITION),
            ("none", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert rig.epoch(index).active().store.offsets["g"]["t"].keys() == {1}


async def test_invalid_deletion_is_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        asked = request([("t", 0)])
        assert (await rig.call(offset_delete, asked, 0)).error_code == E.NOT_COORDINATOR
        rig.lead(rig.index_of("g"))
        await rig.loaded(rig.index_of("g"))
        answer = await rig.call(offset_delete, asked, 0)
        assert (answer.error_code, answer.topics) == (E.GROUP_ID_NOT_FOUND, [])
        answer = await rig.call(offset_delete, request([], group=""), 0)
        assert answer.error_code == E.INVALID_GROUP_ID


class Groups:
    """Groups that are loaded, and note the deletions; the offset of an odd partition cannot be deleted."""

    def __init__(self):
        self.asked = []

    def delete_offsets(self, group_id, keys):
        self.asked.append((group_id, len(keys)))
        pending = PendingResponse()
        pending.complete({key: odd_is_busy(key.partition) for key in keys})
        return pending


def odd_is_busy(index):
    return E.GROUP_SUBSCRIBED_TO_TOPIC if index % 2 else E.NONE


def response_topic(name, codes):
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=index, error_code=code)
            for index, code in codes
        ],
    )


@pytest.mark.parametrize(
    ("known", "batches"),
    [
        (0, [0]),
        (1, [1]),
        (PARTITIONS_PER_BATCH, [PARTITIONS_PER_BATCH]),
        (2 * PARTITIONS_PER_BATCH + 1, [PARTITIONS_PER_BATCH, PARTITIONS_PER_BATCH, 1]),
    ],
)
async def test_offsets_are_deleted_in_batches(monkeypatch, known, batches):
    """Without a known partition the group is still asked: it may not exist."""
    monkeypatch.setattr("trimaran.broker.handlers.offset_delete.loaded", lambda *_: iter(()))
    image = MetadataImage(topics=topics_image(topic_image("t", *[partition()] * known)))
    groups = Groups()
    context = SimpleNamespace(groups=groups, metadata=SimpleNamespace(image=image))
    asked = request([("t", index) for index in range(known + 1)])
    found = await answered(offset_delete, asked, context, call(asked, 0))
    assert groups.asked == [("g", size) for size in batches]
    codes = [(index, odd_is_busy(index)) for index in range(known)]
    missing = (known, E.UNKNOWN_TOPIC_OR_PARTITION)
    assert found == OffsetDeleteResponse(topics=[response_topic("t", [*codes, missing])])


def test_only_refused_topics_are_named_by_an_error():
    asked = request([("t", 2), ("u", 1), ("t", 0)])
    again = request([("t", 5)]).topics
    nothing = OffsetDeleteRequestTopic(name="v", partitions=[])
    asked = asked.replace(topics=[*asked.topics, nothing, *again])
    code = E.TOPIC_AUTHORIZATION_FAILED
    assert _fail(asked, code, "") == OffsetDeleteResponse(
        topics=[
            response_topic("t", [(2, code), (0, code), (5, code)]),
            response_topic("u", [(1, code)]),
        ]
    )
    code = E.GROUP_AUTHORIZATION_FAILED
    assert _fail(asked, code, "") == OffsetDeleteResponse(error_code=code, topics=[])
