from __future__ import annotations

from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_offset_commit import request as commit_request
from tests.broker.handlers.test_offset_commit import topic
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_delete import offset_delete
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
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


async def test_deleting(tmp_path):
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


async def test_refusals(tmp_path):
    async with open_rig(tmp_path) as rig:
        asked = request([("t", 0)])
        assert (await rig.call(offset_delete, asked, 0)).error_code == E.NOT_COORDINATOR
        rig.lead(rig.index_of("g"))
        await rig.loaded(rig.index_of("g"))
        answer = await rig.call(offset_delete, asked, 0)
        assert (answer.error_code, answer.topics) == (E.GROUP_ID_NOT_FOUND, [])
        answer = await rig.call(offset_delete, request([], group=""), 0)
        assert answer.error_code == E.INVALID_GROUP_ID
