from __future__ import annotations

import pytest
import trio

from tests.broker.calls import call, finished
from tests.broker.groups.rig import TOPIC_ID, open_rig
from tests.broker.rooms import NotedRoom
from trimaran.broker.handlers.batches import PARTITIONS_PER_BATCH
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

E = ErrorCode
TOPIC_BYTES = 24  # the size of a topic in the response, without its name and its partitions


def topic(offsets, name="t", topic_id=TOPIC_ID, metadata=None):
    return OffsetCommitRequestTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=p, committed_offset=o, committed_metadata=metadata
            )
            for p, o in offsets.items()
        ],
    )


def request(*topics, **fields):
    values = {"group_id": "g", "member_id": "", "topics": list(topics)}
    return OffsetCommitRequest(**values | fields)


def codes(answer):
    return [
        (t.name, p.partition_index, E(p.error_code)) for t in answer.topics for p in t.partitions
    ]


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_commits(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        answer = await rig.call(offset_commit, request(topic({0: 5, 3: 6, 4: 7})), version)
        name = "t" if version < 10 else ""
        assert sorted(codes(answer)) == [
            (name, 0, E.NONE),
            (name, 3, E.NONE),
            (name, 4, E.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert [t.topic_id for t in answer.topics] == [TOPIC_ID if version >= 10 else bytes(16)]
        stored = rig.epoch(index).active().store.offsets["g"]["t"]
        assert {p: v.offset for p, v in stored.items()} == {0: 5, 3: 6}
        # The topic's id is stored for clients that send only the name, too.
        assert {v.topic_id for v in stored.values()} == {TOPIC_ID}


async def test_version_0_is_stored_in_zookeeper(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        answer = await rig.call(offset_commit, request(topic({0: 5, 9: 5})), 0)
        assert codes(answer) == [("t", 0, E.UNSUPPORTED_VERSION), ("t", 9, E.UNSUPPORTED_VERSION)]
        assert not rig.epoch(index).active().store.offsets.get("g")


async def test_version_1_returns_the_timestamp(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        asked = request(topic({0: 5, 1: 5}))
        asked.topics[0].partitions[0].commit_timestamp = 1234
        await rig.call(offset_commit, asked, 1)
        stored = rig.epoch(index).active().store.offsets["g"]["t"]
        assert stored[0].commit_timestamp == 1234
        assert stored[1].commit_timestamp > 1234


async def test_unknown_topics_are_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        answer = await rig.call(offset_commit, request(topic({0: 1}, name="none")), 9)
        assert codes(answer) == [("none", 0, E.UNKNOWN_TOPIC_OR_PARTITION)]
        unknown = topic({0: 1, 1: 1}, topic_id=b"?" * 16)
        answer = await rig.call(offset_commit, request(unknown, topic({2: 9})), 10)
        assert [p.error_code for p in answer.topics[0].partitions] == [E.UNKNOWN_TOPIC_ID] * 2
        assert [p.error_code for p in answer.topics[1].partitions] == [E.NONE]


async def test_invalid_commits_are_refused(tmp_path):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(offset_commit, request(topic({0: 1, 9: 1})), 9)
        assert codes(answer) == [
            ("t", 9, E.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", 0, E.NOT_COORDINATOR),
        ]
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        fenced = request(topic({0: 1}), generation_id_or_member_epoch=3, member_id="m")
        assert codes(await rig.call(offset_commit, fenced, 9)) == [("t", 0, E.GROUP_ID_NOT_FOUND)]
        assert codes(await rig.call(offset_commit, fenced, 8)) == [("t", 0, E.ILLEGAL_GENERATION)]
        large = request(topic({0: 1}, metadata="m" * 4097), topic({1: -5}))
        assert codes(await rig.call(offset_commit, large, 9)) == [
            ("t", 0, E.OFFSET_METADATA_TOO_LARGE),
            ("t", 1, E.NONE),
        ]


async def test_empty_group_id_is_valid(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.lead(0)
        await rig.loaded(0)
        answer = await rig.call(offset_commit, request(topic({0: 1}), group_id=""), 9)
        assert codes(answer) == [("t", 0, E.NONE)]


async def test_answer_waits_for_the_isr(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        leader.holding = True
        deferred = rig.start(offset_commit, request(topic({0: 1})), 9)
        assert not deferred.ready()
        with trio.move_on_after(4) as waiting:
            await deferred.proceed()
        assert waiting.cancelled_caught
        leader.commit()
        assert deferred.ready()
        assert codes(await rig.finish(request(), 9, deferred)) == [("t", 0, E.NONE)]
        deferred = rig.start(offset_commit, request(topic({0: 2})), 9)
        answer = await rig.finish(request(), 9, deferred)
        assert codes(answer) == [("t", 0, E.COORDINATOR_NOT_AVAILABLE)]


async def test_offset_minus_two_resets_group_to_earliest(tmp_path):
    """KafkaJS' `resetOffsets({earliest: true})`; its consumers ask ListOffsets when they read -2."""
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        for offset in (5, -2, -1, -7):
            answer = await rig.call(offset_commit, request(topic({0: offset})), 2)
            assert codes(answer) == [("t", 0, E.NONE)]
            wanted = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
            asked = OffsetFetchRequest(group_id="g", topics=[wanted])
            (found,) = (await rig.call(offset_fetch, asked, 1)).topics
            assert [partition.committed_offset for partition in found.partitions] == [offset]


async def test_more_partitions_than_a_batch_are_committed(tmp_path):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        leader = rig.lead(index)
        await rig.loaded(index)
        missing = dict.fromkeys(range(4, 4 + PARTITIONS_PER_BATCH), 1)
        large = topic({0: 1}, metadata="m" * 4097)
        answer = await rig.call(offset_commit, request(topic(missing), large, topic({1: 2})), 9)
        told = codes(answer)
        assert told[-2:] == [("t", 0, E.OFFSET_METADATA_TOO_LARGE), ("t", 1, E.NONE)]
        assert {code for _, _, code in told[:-2]} == {E.UNKNOWN_TOPIC_OR_PARTITION}
        commits = [topic({0: offset}) for offset in range(PARTITIONS_PER_BATCH)]
        before = leader.log.log_end_offset
        assert {
            code for _, _, code in codes(await rig.call(offset_commit, request(*commits), 9))
        } == {E.NONE}
        assert leader.log.log_end_offset == before + PARTITIONS_PER_BATCH


async def test_topics_and_partitions_take_room(tmp_path):
    async with open_rig(tmp_path) as rig:
        rig.lead(rig.index_of("g"))
        await rig.loaded(rig.index_of("g"))
        commits = request(topic({0: 1, 9: 1}), topic({0: 1}, name="none"))
        asked = call(commits, 9)
        room = NotedRoom(asked)
        answer = await finished(offset_commit(commits, rig.context, asked))
        encoded = [len(data) for found in answer.topics for data in found.partitions]
        assert len(encoded) == 3
        assert room.size == sum(encoded) + 2 * TOPIC_BYTES + len("t") + len("none")
