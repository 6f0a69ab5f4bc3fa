from __future__ import annotations

import pytest
import trio

from tests.broker.groups.rig import TOPIC_ID, cluster_image, open_rig, topic_image
from tests.broker.handlers.test_offset_commit import request as commit_request
from tests.broker.handlers.test_offset_commit import topic as commit_topic
from trimaran.broker.groups.records import OFFSETS_TOPIC
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_fetch import _asked_once, offset_fetch
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

E = ErrorCode


def request(version, partitions=(0, 1), group="g", topic_id=TOPIC_ID, **fields):
    """Returns a request, with null topics if `partitions` is None."""
    if version < 8:
        asked = OffsetFetchRequest(group_id=group, **fields)
        asked.topics = None
        if partitions is not None:
            asked.topics = [OffsetFetchRequestTopic(name="t", partition_indexes=list(partitions))]
        return asked
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(
                name="t", topic_id=topic_id, partition_indexes=list(partitions)
            )
        ]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=topics)]
    return OffsetFetchRequest(groups=groups, **fields)


def found(answer, version):
    topics = answer.topics if version < 8 else answer.groups[0].topics
    return [
        (p.partition_index, p.committed_offset, p.metadata, E(p.error_code))
        for t in topics
        for p in t.partitions
    ]


async def prepared(rig, group="g"):
    index = rig.index_of(group)
    leader = rig.lead(index)
    await rig.loaded(index)
    await rig.call(
        offset_commit, commit_request(commit_topic({1: 5}, metadata="note"), group_id=group), 9
    )
    return leader


async def test_version_0_uses_zookeeper(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        answer = await rig.call(offset_fetch, request(0), 0)
        assert [code for *_, code in found(answer, 0)] == [E.UNSUPPORTED_VERSION] * 2


@pytest.mark.parametrize("version", range(1, 11))
async def test_every_version_fetches_offsets(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        answer = await rig.call(offset_fetch, request(version), version)
        assert found(answer, version) == [(0, -1, "", E.NONE), (1, 5, "note", E.NONE)]
        if version >= 2:
            answer = await rig.call(offset_fetch, request(version, None), version)
            assert found(answer, version) == [(1, 5, "note", E.NONE)]
        if version >= 10:
            assert answer.groups[0].topics[0].topic_id == TOPIC_ID


@pytest.mark.parametrize("version", range(1, 11))
async def test_group_without_offsets_has_none(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        answer = await rig.call(offset_fetch, request(version, (3,)), version)
        assert found(answer, version) == [(3, -1, "", E.NONE)]


@pytest.mark.parametrize("version", range(1, 11))
async def test_other_broker_is_not_coordinator(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(offset_fetch, request(version, (0,)), version)
        if version == 1:
            assert found(answer, version) == [(0, -1, "", E.NOT_COORDINATOR)]
        elif version < 8:
            assert (answer.error_code, answer.topics) == (E.NOT_COORDINATOR, [])
        else:
            assert answer.groups[0].error_code == E.NOT_COORDINATOR


async def test_unknown_topic_id_is_reported(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        answer = await rig.call(offset_fetch, request(10, (0,), topic_id=b"?" * 16), 10)
        assert found(answer, 10) == [(0, -1, "", E.UNKNOWN_TOPIC_ID)]
        assert answer.groups[0].topics[0].topic_id == b"?" * 16


async def test_each_of_many_groups_has_its_result(tmp_path):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        other = next(f"g{i}" for i in range(50) if rig.index_of(f"g{i}") != rig.index_of("g"))
        both = OffsetFetchRequest(groups=request(9).groups + request(9, group=other).groups)
        answer = await rig.call(offset_fetch, both, 9)
        assert [(g.group_id, E(g.error_code)) for g in answer.groups] == [
            ("g", E.NONE),
            (other, E.NOT_COORDINATOR),
        ]


async def test_uncommitted_offset_is_waited_for(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        leader = await prepared(rig)
        leader.holding = True
        rig.start(offset_commit, commit_request(commit_topic({1: 6})), 9)
        asked = request(9, (1,), require_stable=True)
        deferred = rig.start(offset_fetch, asked, 9)
        began = trio.current_time()
        answer = await rig.finish(asked, 9, deferred)
        assert trio.current_time() - began == pytest.approx(5)
        assert answer.groups[0].error_code == E.NOT_COORDINATOR
        deferred = rig.start(offset_fetch, asked, 9)
        leader.commit()
        answer = await rig.finish(asked, 9, deferred)
        assert found(answer, 9) == [(1, 6, "", E.NONE)]


@pytest.mark.parametrize("version", range(1, 11))
@pytest.mark.parametrize("partitions", [(0, 1), None], ids=["asked", "all"])
async def test_offsets_of_recreated_topic_are_absent(tmp_path, version, partitions):
    """This holds while tombstones of the former topic's offsets cannot be written."""
    if partitions is None and version == 1:
        return  # null topics came with version 2
    async with open_rig(tmp_path) as rig:
        leader = await prepared(rig)
        leader.failing = E.NOT_ENOUGH_REPLICAS
        again = b"topic-id-of-t--2"
        rig.metadata.image = cluster_image(
            topic_image("t", again, 4), rig.metadata.image.topics.by_name[OFFSETS_TOPIC]
        )
        asked = request(version, partitions, topic_id=again)
        told = found(await rig.call(offset_fetch, asked, version), version)
        nothing = [(0, -1, "", E.NONE), (1, -1, "", E.NONE)]
        assert told == ([] if partitions is None else nothing)


def group(group_id, *topics):
    """Returns a group with topics and their partitions; without topics it requests all of its offsets."""
    named = [
        OffsetFetchRequestTopics(name=name, topic_id=bytes(16), partition_indexes=list(indexes))
        for name, *indexes in topics
    ]
    return OffsetFetchRequestGroup(group_id=group_id, topics=named or None)


def partitions_in(message):
    return [
        (
            group.group_id,
            None
            if group.topics is None
            else [(topic.name, topic.partition_indexes) for topic in group.topics],
        )
        for group in message.groups
    ]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([group("g", ("t", 1, 0, 1))], [("g", [("t", [1, 0])])]),
        (
            [group("g", ("t", 0)), group("g", ("t", 1), ("u", 2))],
            [("g", [("t", [0, 1]), ("u", [2])])],
        ),
        ([group("g", ("t", 0)), group("g")], [("g", None)]),
        ([group("g"), group("g", ("t", 0))], [("g", None)]),
        ([group("g"), group("h", ("t", 0)), group("g")], [("g", None), ("h", [("t", [0])])]),
    ],
)
def test_repeated_partitions_are_looked_up_once(groups, expected):
    assert partitions_in(_asked_once(OffsetFetchRequest(groups=groups))) == expected
