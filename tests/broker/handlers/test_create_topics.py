"""CreateTopics through a broker: the response is sent once the broker has applied the topics too."""

import pytest

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def creation(name="t", partitions=1, replicas=1, **more):
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[],
    )
    return CreateTopicsRequest(topics=[topic], **more)


@pytest.mark.parametrize("version", [2, 7])
async def test_created_topic_is_known_at_once(tmp_path, version):
    async with broker_client(tmp_path) as one:
        (created,) = (await one.call(creation(partitions=3), version)).topics
        assert created.error_code == 0
        assert len(one.image.topics.by_name["t"].partitions) == 3
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        assert len((await one.call(request)).topics[0].partitions) == 3


async def test_validate_only_creates_nothing(tmp_path):
    async with broker_client(tmp_path) as one:
        (topic,) = (await one.call(creation(validate_only=True))).topics
        assert (topic.error_code, topic.num_partitions) == (0, 1)
        assert "t" not in one.image.topics.by_name


async def test_impossible_topics_are_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        codes = [
            (await one.call(request)).topics[0].error_code
            for request in (creation(), creation("a/b"), creation("u", replicas=2))
        ]
        assert codes == [
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_REPLICATION_FACTOR,
        ]


async def test_refusal_is_returned_for_every_topic(tmp_path):
    (topic,) = (await refusal_by_controller(tmp_path, creation(), 7)).topics
    found = (topic.name, topic.error_code)
    assert found == ("t", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
