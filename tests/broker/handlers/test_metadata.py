"""Metadata, DescribeCluster, DescribeConfigs: what clients see of the image, by version."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.broker.calls import answered, call, connection, finished, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic, topic_id
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.handlers.describe_cluster import describe_cluster
from trimaran.broker.handlers.metadata import metadata
from trimaran.quorum.serving.describe_configs import describe_configs
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_cluster import DescribeClusterRequest
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

VERSION = 13


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, auto_create_topics_enable="false")
    harness.set_image(
        topic("t", partition((11, 12)), partition((12, 11), leader=12, leader_epoch=2)),
        topic("__consumer_offsets", partition((13,), leader=-1)),
        brokers=(registration(11), registration(12, 7777), registration(13, fenced=True)),
    )
    return harness


async def ask(harness, *names, version=VERSION, everything=False, on=None, **fields):
    topics = None if everything else [MetadataRequestTopic(name=name) for name in names]
    request = through_wire(MetadataRequest(topics=topics, **fields), version)
    answer = await finished(
        metadata(request, harness.contexts.administration, call(request, version, on))
    )
    return through_wire(answer, version)


async def test_live_brokers_with_the_listener_are_returned(harness):
    answer = await ask(harness)
    assert [(broker.node_id, broker.port) for broker in answer.brokers] == [(11, 9092), (12, 7777)]
    assert (answer.controller_id, answer.cluster_id, answer.topics) == (11, CLUSTER_ID, [])
    assert (await ask(harness, on=connection("OTHER"))).brokers == []


async def test_topics_have_their_leaders(harness):
    answer = await ask(harness, everything=True)
    found = {topic.name: topic for topic in answer.topics}
    assert found["t"].topic_id == topic_id("t")
    assert not found["t"].is_internal
    assert [(p.leader_id, p.leader_epoch, p.error_code) for p in found["t"].partitions] == [
        (11, 0, 0),
        (12, 2, 0),
    ]
    internal = found["__consumer_offsets"]
    assert internal.is_internal
    leaderless = internal.partitions[0]
    assert leaderless.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (leaderless.leader_id, leaderless.offline_replicas) == (-1, [13])


async def test_unknown_and_invalid_topics_are_refused(harness):
    answer = await ask(harness, "nowhere", "bad name", "")
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    by_id = MetadataRequest(
        topics=[
            MetadataRequestTopic(name=None, topic_id=topic_id("t")),
            MetadataRequestTopic(name=None, topic_id=b"x" * 16),
        ]
    )
    request = through_wire(by_id, VERSION)
    found = await finished(
        metadata(request, harness.contexts.administration, call(request, VERSION))
    )
    answer = through_wire(found, VERSION)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("t", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


async def test_version_0_lists_all_topics_and_live_replicas(harness):
    harness.set_image(topic("t", partition((11, 13))))
    answer = await ask(harness, version=0)
    [found] = answer.topics[0].partitions
    assert (found.replica_nodes, found.error_code) == ([11], ErrorCode.REPLICA_NOT_AVAILABLE)


async def test_ids_are_not_for_versions_ten_and_eleven(harness):
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=b"x" * 16)])
    request = through_wire(message, 10)
    with pytest.raises(KafkaError) as raised:
        await finished(metadata(request, harness.contexts.administration, call(request, 10)))
    assert raised.value.code is ErrorCode.INVALID_REQUEST


async def test_missing_topics_are_created_if_wanted_and_allowed(tmp_path):
    harness = open_harness(tmp_path)
    asked = []

    async def create(names, _call):
        asked.append(list(names))
        harness.set_image(topic("new", partition()), brokers=(registration(11),))
        return {"new": ErrorCode.NONE, "other": ErrorCode.INVALID_REPLICATION_FACTOR}

    object.__setattr__(
        harness.contexts.administration, "topic_creation", SimpleNamespace(create=create)
    )
    answer = await ask(harness, "new", "other", "bad name")
    assert asked == [["new", "other"]]
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("other", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    assert [len(topic.partitions) for topic in answer.topics] == [0, 0, 0]
    (known,) = (await ask(harness, "new")).topics
    assert (known.error_code, len(known.partitions)) == (0, 1)
    await ask(harness, "third", allow_auto_topic_creation=False)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (1, 0),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_cluster_is_described_by_endpoint_type(harness, kind, code):
    message = DescribeClusterRequest(
        include_cluster_authorized_operations=True, endpoint_type=kind, include_fenced_brokers=True
    )
    request = through_wire(message, 2)
    answer = describe_cluster(request, harness.contexts.administration, call(request, 2))
    assert answer.error_code == code
    if not code:
        assert [(b.broker_id, b.is_fenced) for b in answer.brokers] == [
            (11, False),
            (12, False),
            (13, True),
        ]


async def describe(harness, kind, name, keys=None):
    message = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        ],
        include_synonyms=True,
    )
    request = through_wire(message, 4)
    answer = await answered(
        describe_configs, request, harness.contexts.administration, call(request, 4)
    )
    [result] = answer.results
    return result.error_code, {config.name: config for config in result.configs}


async def test_topic_configs_name_their_source(tmp_path):
    harness = open_harness(tmp_path, log_retention_hours="1")
    harness.set_image(
        topic("t", partition()),
        configs={(2, "t"): {"segment.ms": "5"}, (4, ""): {"log.segment.bytes": "1048577"}},
    )
    code, configs = await describe(harness, 2, "t")
    assert code == 0
    shown = {name: (config.value, config.config_source) for name, config in configs.items()}
    assert shown["segment.ms"] == ("5", 1)
    assert shown["segment.bytes"] == ("1048577", 3)
    assert shown["retention.ms"] == ("3600000", 5)
    assert shown["max.message.bytes"] == ("1048588", 5)
    assert configs["segment.bytes"].synonyms[0].name == "log.segment.bytes"
    assert set((await describe(harness, 2, "t", ["segment.ms", "nonsense"]))[1]) == {"segment.ms"}


async def test_configs_of_other_or_missing_resources_are_refused(harness):
    code, configs = await describe(harness, 4, "11")
    assert (code, configs["node.id"].value, configs["node.id"].read_only) == (0, "11", True)
    assert (await describe(harness, 4, "12"))[0] == ErrorCode.INVALID_REQUEST
    assert (await describe(harness, 2, "nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await describe(harness, 2, "bad name"))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    with pytest.raises(KafkaError, match="INVALID_REQUEST: Unexpected resource type 77"):
        await describe(harness, 77, "x")
