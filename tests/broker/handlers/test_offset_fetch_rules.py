"""OffsetFetch: refusals in the error field of each version, merged responses, and hidden topics."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import through_wire
from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_offset_fetch import prepared, request
from trimaran.broker.handlers.offset_fetch import (
    OFFSETS_PER_BATCH,
    _asked_once,
    _committed,
    _fail,
    _group_error,
    _of_one_group,
    _one_group,
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


def test_refusal_of_many_groups_names_each():
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
        old = OffsetFetchResponsePartition
        assert found == OffsetFetchResponseGroup(
            group_id="g",
            topics=[
                told_topic("t", lacking(3, kind=old), lacking(1, kind=old)),
                told_topic("u", lacking(2, kind=old)),
            ],
        )
        nothing = OffsetFetchResponseGroup(group_id="g", topics=[])
        assert _group_error(group.replace(topics=None), CODE, version) == nothing


def test_group_of_older_version_is_converted():
    topics = [asked_topic("t", 3, 1), asked_topic("u", 2)]
    assert _one_group(OLD) == OffsetFetchRequestGroup(group_id="g", topics=topics)
    of_all = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert _one_group(OLD.replace(topics=None)) == of_all
    assert _one_group(OLD.replace(topics=[])) == of_all.replace(topics=[])
    encoded = EncodedArray([b"1", b"2"])
    told = OffsetFetchResponseGroup(
        group_id="g",
        topics=[OffsetFetchResponseTopics(name="t", topic_id=T_ID, partitions=encoded)],
        error_code=CODE,
    )
    expected = OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic(name="t", partitions=encoded)], error_code=CODE
    )
    assert _of_one_group(told) == expected


def test_topic_with_two_ids_counts_as_two():
    topics = [asked_topic("", 1, topic_id=T_ID), asked_topic("", 1, 2, topic_id=U_ID)]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=[*topics, *topics])]
    once = _asked_once(OffsetFetchRequest(groups=groups))
    assert once.groups == [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    assert _asked_once(OLD.replace(topics=[*OLD.topics, *OLD.topics])) == OLD
    message = through_wire(OLD, 7)
    assert _asked_once(message) == message


@pytest.mark.parametrize("version", [7, 9])
async def test_more_offsets_than_a_batch_are_answered(tmp_path, version):
    async with open_rig(tmp_path) as rig:
        await prepared(rig)
        count = 2 * OFFSETS_PER_BATCH
        answer = await rig.call(offset_fetch, request(version, range(count)), version)
        (topic,) = answer.topics if version < 8 else answer.groups[0].topics
        assert [partition.committed_offset for partition in topic.partitions] == [
            5 if index == 1 else -1 for index in range(count)
        ]


def test_all_offsets_cover_existing_visible_topics():
    def values(*indexes, topic_id):
        return {index: SimpleNamespace(topic_id=topic_id) for index in indexes}

    committed = {
        "t": values(3, 1, topic_id=T_ID) | values(2, topic_id=U_ID) | values(4, topic_id=NIL_UUID),
        "gone": values(0, topic_id=NIL_UUID),
        "secret": values(0, topic_id=b"s" * 16),
        "u": values(2, topic_id=T_ID),
    }
    by_name = {name: SimpleNamespace(id=name[:1].encode() * 16) for name in ("t", "secret", "u")}
    image = SimpleNamespace(topics=SimpleNamespace(by_name=by_name))
    context = SimpleNamespace(
        metadata=SimpleNamespace(image=image),
        groups=SimpleNamespace(committed_partitions={"g": committed}.__getitem__),
    )
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    found = list(_committed(group, context, lambda name: name != "secret"))
    assert found == [asked_topic("t", 3, 1, 4, topic_id=T_ID)]
