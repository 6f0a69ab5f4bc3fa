"""OffsetFetch: refusals in each version's own place, answers that are joined, and what is not told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import call, finished, through_wire
from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_offset_fetch import prepared, request
from trimaran.broker.handlers.offset_fetch import (
    _asked_once,
    _drop_unknown,
    _fail,
    _failed,
    _group_error,
    _groups,
    _join,
    _respond,
    _with_all_topics,
    offset_fetch,
)
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from trimaran.wire.transport.requests.calls import DeferredResponse

E = ErrorCode
CODE = E.COORDINATOR_LOAD_IN_PROGRESS
T_ID, U_ID = b"t" * 16, b"u" * 16


def lacking(index, code=CODE, kind=OffsetFetchResponsePartitions):
    return kind(
        partition_index=index,
        committed_offset=-1,
        committed_leader_epoch=-1,
        metadata="",
        error_code=code,
    )


def committed(index, offset=5):
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset,
        committed_leader_epoch=index + 100,
        metadata=f"m{index}",
        error_code=E.NONE,
    )


def asked_topic(name, *indexes, topic_id=NIL_UUID):
    return OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=list(indexes))


def told_topic(name, *partitions, topic_id=NIL_UUID):
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=list(partitions))


OLD = OffsetFetchRequest(
    group_id="g",
    topics=[
        OffsetFetchRequestTopic(name="t", partition_indexes=[3, 1]),
        OffsetFetchRequestTopic(name="u", partition_indexes=[2]),
    ],
)


def test_group_refusal_is_at_top_and_per_partition():
    plain = OffsetFetchResponsePartition
    assert _fail(OLD, CODE, "") == OffsetFetchResponse(
        error_code=CODE,
        topics=[
            OffsetFetchResponseTopic(
                name="t", partitions=[lacking(3, kind=plain), lacking(1, kind=plain)]
            ),
            OffsetFetchResponseTopic(name="u", partitions=[lacking(2, kind=plain)]),
        ],
    )
    of_all = OLD.replace(topics=None)
    assert _fail(of_all, CODE, "") == OffsetFetchResponse(error_code=CODE, topics=[])


def test_a_refusal_of_many_groups_is_of_each():
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=[asked_topic("t", 1)]),
        OffsetFetchRequestGroup(group_id="h", topics=None),
    ]
    assert _fail(OffsetFetchRequest(groups=groups), CODE, "") == OffsetFetchResponse(
        groups=[
            OffsetFetchResponseGroup(group_id=name, topics=[], error_code=CODE) for name in "gh"
        ]
    )


@pytest.mark.parametrize("version", range(11))
def test_group_error_is_per_partition_below_version_2(version):
    topics = [asked_topic("t", 3, 1, topic_id=T_ID), asked_topic("u", 2)]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    found = _group_error(group, CODE, version)
    if version >= 2:
        assert found == OffsetFetchResponseGroup(group_id="g", topics=[], error_code=CODE)
    else:
        assert found == OffsetFetchResponseGroup(
            group_id="g",
            topics=[
                told_topic("t", lacking(3), lacking(1), topic_id=T_ID),
                told_topic("u", lacking(2)),
            ],
        )
        nothing = OffsetFetchResponseGroup(group_id="g", topics=[])
        assert _group_error(group.replace(topics=None), CODE, version) == nothing


def test_topic_refusal_applies_to_each_partition():
    expected = told_topic("t", lacking(3), lacking(1), topic_id=T_ID)
    assert _failed(asked_topic("t", 3, 1, topic_id=T_ID), CODE) == expected


@pytest.mark.parametrize("version", range(11))
def test_single_group_format_is_used_below_version_8(version):
    groups = [OffsetFetchRequestGroup(group_id="other", topics=None)]
    found = _groups(OLD.replace(groups=groups), version)
    told = [
        OffsetFetchResponseGroup(
            group_id="g", topics=[told_topic("t", committed(3), lacking(1))], error_code=CODE
        ),
        OffsetFetchResponseGroup(group_id="h", topics=[]),
    ]
    if version >= 8:
        assert found == groups
        assert _respond(told, version) == OffsetFetchResponse(groups=told)
        return
    topics = [asked_topic("t", 3, 1), asked_topic("u", 2)]
    assert found == [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    of_all = _groups(OLD.replace(topics=None), version)
    assert of_all == [OffsetFetchRequestGroup(group_id="g", topics=None)]
    of_none = _groups(OLD.replace(topics=[]), version)
    assert of_none == [OffsetFetchRequestGroup(group_id="g", topics=[])]
    plain = OffsetFetchResponsePartition(
        partition_index=3,
        committed_offset=5,
        committed_leader_epoch=103,
        metadata="m3",
        error_code=E.NONE,
    )
    partitions = [plain, lacking(1, kind=OffsetFetchResponsePartition)]
    expected = OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic(name="t", partitions=partitions)], error_code=CODE
    )
    assert _respond(told[:1], version) == expected


def test_encoded_partitions_are_passed_through():
    encoded = EncodedArray([b"1", b"2"])
    whole = OffsetFetchResponseGroup(
        group_id="g",
        topics=[OffsetFetchResponseTopics(name="t", topic_id=T_ID, partitions=encoded)],
    )
    (topic,) = _respond([whole], 7).topics
    assert (topic.name, topic.partitions is encoded) == ("t", True)


def test_deleted_offsets_are_omitted_from_all():
    group = OffsetFetchResponseGroup(
        group_id="g",
        topics=[
            told_topic("t", committed(1), lacking(2, E.NONE), lacking(3), committed(4, 0)),
            told_topic("u", lacking(1, E.NONE)),
            told_topic("v", lacking(1)),
        ],
    )
    _drop_unknown(group)
    assert group.topics == [
        told_topic("t", committed(1), lacking(3), committed(4, 0)),
        told_topic("v", lacking(1)),
    ]


def test_answer_parts_of_same_topic_are_joined():
    def parts():
        before = [
            told_topic("t", committed(1), topic_id=T_ID),
            told_topic("t", committed(2), topic_id=U_ID),
            told_topic("", committed(3), topic_id=T_ID),
        ]
        more = [
            told_topic("", committed(4), topic_id=T_ID),
            told_topic("t", committed(5), topic_id=U_ID),
            told_topic("u", committed(6), topic_id=U_ID),
        ]
        return before, more

    found, more = parts()
    _join(found, more, True)
    assert found == [
        told_topic("t", committed(1), topic_id=T_ID),
        told_topic("t", committed(2), committed(5), topic_id=U_ID),
        told_topic("", committed(3), committed(4), topic_id=T_ID),
        told_topic("u", committed(6), topic_id=U_ID),
    ]
    found, more = parts()
    _join(found, more, False)
    assert found == [*parts()[0], *parts()[1]]


def test_topic_with_two_ids_counts_as_two():
    topics = [asked_topic("", 1, topic_id=T_ID), asked_topic("", 1, 2, topic_id=U_ID)]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=[*topics, *topics])]
    once = _asked_once(OffsetFetchRequest(groups=groups))
    assert once.groups == [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    assert _asked_once(OLD.replace(topics=[*OLD.topics, *OLD.topics])) == OLD
    message = through_wire(OLD, 7)
    assert _asked_once(message) == message


@pytest.mark.parametrize("version", range(1, 11))
async def test_heavy_request_is_answered_like_light_one(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        for partitions in ((0, 1, 2), None) if version > 1 else ((0, 1, 2),):
            message = through_wire(request(version, partitions), version)
            told = []
            for heavy in (False, True):
                asked = call(message, version)
                asked.heavy = heavy
                response = offset_fetch(message, rig.context, asked)
                assert isinstance(response, DeferredResponse) is heavy
                answer = await finished(response)
                told.append(through_wire(answer, version))
            assert told[0] == told[1]
            assert response.on_error(CODE, "") == _fail(message, CODE, "")


@pytest.mark.parametrize(("count", "is_later"), [(500, False), (501, True)])
async def test_five_hundred_offsets_are_answered_at_once(tmp_path, count, is_later):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        for version in (7, 9):
            message = through_wire(request(version, range(count)), version)
            response = offset_fetch(message, rig.context, call(message, version))
            assert isinstance(response, DeferredResponse) is is_later
            answer = through_wire(await finished(response), version)
            (topic,) = answer.topics if version < 8 else answer.groups[0].topics
            assert [one.committed_offset for one in topic.partitions] == [
                5 if index == 1 else -1 for index in range(count)
            ]


def test_all_offsets_cover_existing_visible_topics():
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    committed_of = {"g": {"t": [3, 1], "gone": [0], "secret": [0], "u": [2]}}
    by_name = {name: SimpleNamespace(id=name[:1].encode() * 16) for name in ("t", "secret", "u")}
    image = SimpleNamespace(topics=SimpleNamespace(by_name=by_name))
    context = SimpleNamespace(
        metadata=SimpleNamespace(image=image),
        groups=SimpleNamespace(committed_partitions=committed_of.__getitem__),
    )
    found = _with_all_topics(group, context, lambda name: name != "secret")
    assert found == OffsetFetchRequestGroup(
        group_id="g",
        topics=[asked_topic("t", 3, 1, topic_id=T_ID), asked_topic("u", 2, topic_id=U_ID)],
    )


@pytest.mark.parametrize(("counts", "is_later"), [((250, 250), False), ((250, 1, 250), True)])
async def test_offsets_of_all_groups_count_together(tmp_path, counts, is_later):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        groups = [request(9, range(count)).groups[0] for count in counts]
        message = through_wire(OffsetFetchRequest(groups=groups), 9)
        response = offset_fetch(message, rig.context, call(message, 9))
        assert isinstance(response, DeferredResponse) is is_later
        answer = through_wire(await finished(response), 9)
        told = [len(topic.partitions) for one in answer.groups for topic in one.topics]
        assert told == list(counts)
