"""DescribeTopicPartitions: pages of partitions, with fields that Metadata lacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.calls import call, connection, finished, through_wire
from tests.broker.rooms import NotedRoom
from tests.cluster.data_side import open_harness, partition, registration, replaced, topic, topic_id
from trimaran.broker.handlers.describe_topic_partitions import _Page, describe_topic_partitions
from trimaran.broker.metadata.reachable import Reachable
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

DESCRIBE = Operation.DESCRIBE
LOST = bytes(15) + b"\x01"
SIZES = {"a": 1, "b": 7, "c": 2, "__consumer_offsets": 3}
TOPIC_BYTES = 300  # the size of a topic in the response, without its partitions
ALL = [(name, index) for name in sorted(SIZES) for index in range(SIZES[name])]


@pytest.fixture(scope="module")
def harness(tmp_path_factory):
    harness = open_harness(
        tmp_path_factory.mktemp("broker"), max_request_partition_size_limit="1000"
    )
    plain = [topic(name, *[partition((11, 12))] * size) for name, size in SIZES.items()]
    moved = partition(
        (11, 12, 13),
        leader=-1,
        leader_epoch=5,
        isr=(),
        elr=(12,),
        last_known_elr=(11,),
        directories=(LOST, bytes(16), bytes(16)),
    )
    harness.set_image(
        *plain,
        topic("moved", moved),
        brokers=(registration(11), registration(12), registration(13, fenced=True)),
    )
    return harness


async def ask(harness, *names, limit=2000, cursor=None, on=None):
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    request = through_wire(request, 0)
    answer = await finished(
        describe_topic_partitions(request, harness.contexts.administration, call(request, 0, on))
    )
    return through_wire(answer, 0)


def shown(answer):
    return [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]


async def test_eligible_leaders_and_offline_replicas(harness):
    answer = await ask(harness, "moved")
    (found,) = answer.topics
    assert (found.error_code, found.topic_id, found.is_internal) == (0, topic_id("moved"), False)
    (one,) = found.partitions
    assert (one.error_code, one.leader_id, one.leader_epoch) == (0, -1, 5)
    assert (one.eligible_leader_replicas, one.last_known_elr) == ([12], [11])
    assert (one.replica_nodes, one.isr_nodes) == ([11, 12, 13], [])
    assert one.offline_replicas == [11, 13], "11 lost the directory, 13 is fenced"
    assert answer.next_cursor is None


async def test_replica_without_the_listener_is_offline(harness):
    answer = await ask(harness, "a", on=connection("OTHER"))
    (one,) = answer.topics[0].partitions
    assert (one.leader_id, one.offline_replicas) == (-1, [11, 12])


async def test_all_topics_are_sorted_with_internal_flags(harness):
    answer = await ask(harness)
    assert shown(answer) == sorted([*ALL, ("moved", 0)])
    assert [topic.name for topic in answer.topics if topic.is_internal] == ["__consumer_offsets"]


async def test_missing_topic_is_reported_once_in_place(harness):
    answer = await ask(harness, "c", "nowhere", "bad name", "c")
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("c", ErrorCode.NONE),
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


@pytest.mark.parametrize("cursor", [("b", -1), ("c", 0)])
async def test_cursor_must_name_a_requested_topics_partition(harness, cursor):
    answer = await ask(harness, "a", "b", cursor=cursor)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST] * 2


async def test_cursor_may_name_deleted_topic(harness):
    assert shown(await ask(harness, cursor=("bb", 4)))[0] == ("c", 0)
    assert shown(await ask(harness, "b", "c", cursor=("b", 100))) == [("c", 0), ("c", 1)]


@pytest.mark.parametrize("limit", [0, -5, 1])
async def test_page_has_at_least_one_partition(harness, limit):
    assert len(shown(await ask(harness, limit=limit))) == 1


async def test_page_size_is_limited_by_config(tmp_path):
    small = open_harness(tmp_path, max_request_partition_size_limit="3")
    small.set_image(topic("t", *[partition()] * 9), brokers=(registration(11),))
    answer = await ask(small)
    assert len(shown(answer)) == 3
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", 3)


@given(
    limit=st.integers(1, 20),
    names=st.lists(st.sampled_from([*SIZES, "nowhere"]), unique=True),
)
async def test_pages_together_contain_every_partition(harness, limit, names):
    wanted = (
        [partition for partition in ALL if partition[0] in names]
        if names
        else sorted([*ALL, ("moved", 0)])
    )
    found, cursor = [], None
    while True:
        answer = await ask(harness, *names, limit=limit, cursor=cursor)
        page = shown(answer)
        assert len(page) <= limit
        found += page
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert found == wanted


@pytest.mark.parametrize(
    ("skips_unknown", "judged"), [(True, ["a", "b", "c"]), (False, ["a", "b", "c", "moved", "z"])]
)
async def test_full_page_ends_the_response(harness, skips_unknown, judged):
    """All named topics are authorized. Each topic of the page and each of its partitions takes room."""
    asked = call(DescribeTopicPartitionsRequest(topics=[]), 0)
    image, room, seen = harness.metadata.image, NotedRoom(asked), []
    reachable = Reachable(image.cluster, "PLAINTEXT")
    page = _Page(image.topics, reachable, 8, lambda name: not seen.append(name), room)
    names = ["a", "b", "c", "moved", "z"]
    await finished(page.fill(names, None, skips_unknown=skips_unknown))
    assert (seen, page.refused) == (judged, [])
    assert [(topic.name, len(topic.partitions)) for topic in page.topics] == [("a", 1), ("b", 7)]
    assert page.next_cursor == Cursor(topic_name="c", partition_index=0)
    encoded = sum(len(data) for topic in page.topics for data in topic.partitions)
    assert room.size == encoded + len(page.topics) * TOPIC_BYTES


async def test_unauthorized_topics_are_reported_behind_full_page(harness, monkeypatch):
    """Kafka's `DescribeTopicPartitionsRequestHandler` also authorizes all named topics first; a request for all topics
    reports no unauthorized ones.
    """
    authorizer = Authorizer()
    for name in ("b", "c"):
        acl = (ResourceType.TOPIC, name, PatternType.LITERAL, "User:*", "*", DESCRIBE)
        authorizer._index.add(Acl(*acl, Permission.ALLOW))
    authorizer.complete_initial_load()
    monkeypatch.setattr(harness, "contexts", replaced(harness.contexts, authorizer=authorizer))
    answer = await ask(harness, "moved", "c", "b", "a", "none", limit=2)
    refused = {topic.name for topic in answer.topics if topic.error_code}
    assert [topic.name for topic in answer.topics][:1] == ["b"]
    assert refused == {"a", "moved", "none"}
    assert answer.next_cursor == Cursor(topic_name="b", partition_index=2)
    answer = await ask(harness, limit=2)
    assert [topic.name for topic in answer.topics] == ["b"]
