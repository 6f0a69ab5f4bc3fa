"""The operations that a client may perform on topics, groups and the cluster are returned on request."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import answered, call, through_wire
from tests.broker.groups.rig import open_rig
from tests.broker.handlers.test_consumer_group_heartbeat import joining, served
from tests.broker.handlers.test_join_group import request as join_request
from tests.cluster.data_side import open_harness, partition, registration, replaced, topic
from tests.counted_work import Work
from trimaran.broker.handlers import metadata as metadata_handler
from trimaran.broker.handlers.consumer_group_describe import consumer_group_describe
from trimaran.broker.handlers.consumer_group_heartbeat import consumer_group_heartbeat
from trimaran.broker.handlers.describe_cluster import describe_cluster
from trimaran.broker.handlers.describe_groups import describe_groups
from trimaran.broker.handlers.describe_topic_partitions import describe_topic_partitions
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.metadata import metadata
from trimaran.broker.handlers.registry import CONTEXT_OF
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest
from trimaran.wire.messages.describe_groups import DescribeGroupsRequest
from trimaran.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

NOT_ASKED = -(1 << 31)
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
# A topic, a group and the cluster with the same name; each has different rights.
RIGHTS = {
    (TOPIC, "t"): (Operation.READ, Operation.DESCRIBE),
    (TOPIC, "u"): (Operation.ALTER, Operation.DESCRIBE),
    (GROUP, "t"): (Operation.DELETE, Operation.DESCRIBE),
    (GROUP, "g"): (Operation.READ, Operation.DESCRIBE),
    (CLUSTER, CLUSTER_NAME): (Operation.CREATE, Operation.DESCRIBE),
}


def bits(kind, name):
    return sum(1 << right for right in RIGHTS[kind, name])


@pytest.fixture
def authorizer():
    made = Authorizer()
    made.complete_initial_load()
    for (kind, name), operations in RIGHTS.items():
        for operation in operations:
            made._index.add(
                Acl(
                    kind,
                    name,
                    PatternType.LITERAL,
                    "User:ANONYMOUS",
                    "*",
                    operation,
                    Permission.ALLOW,
                )
            )
    return made


@pytest.fixture
def harness(tmp_path, authorizer):
    harness = open_harness(tmp_path)
    topics = (topic("t", partition()), topic("u", partition()))
    harness.set_image(*topics, brokers=(registration(11),))
    harness.contexts = replaced(harness.contexts, authorizer=authorizer)
    yield harness
    harness.directory.close(broker_epoch=None)


async def ask(harness, handler, message, version):
    message = through_wire(message, version)
    return await answered(
        handler, message, CONTEXT_OF[handler](harness.contexts), call(message, version)
    )


@pytest.mark.parametrize("asked_for", [True, False])
async def test_operations_of_topics_and_cluster_are_returned(harness, asked_for):
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in "tu"],
        include_cluster_authorized_operations=asked_for,
        include_topic_authorized_operations=asked_for,
    )
    for version in (8, 10):
        told = await ask(harness, metadata, wanted, version)
        found = {topic.name: topic.topic_authorized_operations for topic in told.topics}
        expected = {name: bits(TOPIC, name) if asked_for else NOT_ASKED for name in "tu"}
        assert found == expected
        cluster = bits(CLUSTER, CLUSTER_NAME) if asked_for else NOT_ASKED
        assert told.cluster_authorized_operations == cluster
    wanted = DescribeClusterRequest(include_cluster_authorized_operations=asked_for)
    told = await ask(harness, describe_cluster, wanted, 1)
    assert told.cluster_authorized_operations == cluster


async def test_operations_of_all_topics_ignore_cached_answers(harness):
    """Cached responses for all topics have no operations, and responses with operations are not cached."""
    told = []
    for asked_for in (False, True, False, True):
        wanted = MetadataRequest(topics=None, include_topic_authorized_operations=asked_for)
        answer = await ask(harness, metadata, wanted, 12)
        told.append({topic.name: topic.topic_authorized_operations for topic in answer.topics})
    without = dict.fromkeys("tu", NOT_ASKED)
    assert told == [without, {name: bits(TOPIC, name) for name in "tu"}] * 2


async def test_request_may_pause_after_each_topic(harness, monkeypatch):
    names = [f"t{number}" for number in range(7)]
    harness.set_image(*(topic(name, partition()) for name in names))
    harness.contexts = replaced(harness.contexts, authorizer=None)
    looked = Work(monkeypatch, metadata_handler, "authorized_operations")
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        include_topic_authorized_operations=True,
    )
    answer = await ask(harness, metadata, wanted, 12)
    assert all(found.topic_authorized_operations > 0 for found in answer.topics)
    assert (looked.calls, looked.in_longest_step) == (7, 1)


async def test_missing_internal_topic_is_marked_internal(harness):
    harness.contexts = replaced(harness.contexts, authorizer=None)
    wanted = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("__consumer_offsets", "v")],
        allow_auto_topic_creation=False,
    )
    found = [
        (topic.name, topic.is_internal)
        for topic in (await ask(harness, metadata, wanted, 12)).topics
    ]
    assert found == [("__consumer_offsets", True), ("v", False)]


async def test_page_has_operations_of_each_topic(harness):
    wanted = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in "tu"])
    told = await ask(harness, describe_topic_partitions, wanted, 0)
    found = {topic.name: topic.topic_authorized_operations for topic in told.topics}
    assert found == {name: bits(TOPIC, name) for name in "tu"}


@pytest.mark.parametrize("asked_for", [True, False])
async def test_operations_of_groups_are_returned(tmp_path, autojump_clock, authorizer, asked_for):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(consumer_group_heartbeat, joining(), 1)
        rig.context = SimpleNamespace(**{**vars(rig.context), "authorizer": authorizer})
        of_consumers = ConsumerGroupDescribeRequest(
            group_ids=["g"], include_authorized_operations=asked_for
        )
        (group,) = (await rig.call(consumer_group_describe, of_consumers, 1)).groups
        expected = bits(GROUP, "g") if asked_for else NOT_ASKED
        assert (group.error_code, group.authorized_operations) == (0, expected)
        if rig.index_of("t") != rig.index_of("g"):
            rig.lead(rig.index_of("t"))
            await rig.loaded(rig.index_of("t"))
        await rig.call(join_group, join_request(group_id="t"), 3)
        classic = DescribeGroupsRequest(groups=["t"], include_authorized_operations=asked_for)
        (group,) = (await rig.call(describe_groups, classic, 4)).groups
        assert group.authorized_operations == (bits(GROUP, "t") if asked_for else NOT_ASKED)
