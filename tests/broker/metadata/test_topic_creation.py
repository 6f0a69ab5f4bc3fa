"""Topics that a broker creates for a client as the client describes them: internal topics of streams groups."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import trio

from trimaran.broker.metadata.topic_creation import (
    CREATE_SECONDS,
    FAILURES_REMEMBERED,
    TopicCreation,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsResponse,
)


class Cluster(TopicCreation):
    """Notes the requests to the controller, which answers with `codes`, and has the topics in its image at once."""

    def __init__(self, **codes):
        super().__init__(None, self, {})
        self.asked = []
        self.codes = codes
        self.seconds = 0.0
        self.failing = None

    async def wait_for(self, predicate):
        names = dict.fromkeys(name for names in self.asked for name in names)
        image = SimpleNamespace(topics=SimpleNamespace(by_name=names))
        if not predicate(image):
            await trio.sleep_forever()

    async def _asked(self, request, _call):
        self.asked.append([topic.name for topic in request.topics])
        await trio.sleep(self.seconds)
        if self.failing is not None:
            raise self.failing
        return CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name=topic.name,
                    error_code=self.codes.get(topic.name, ErrorCode.NONE),
                    error_message=f"no {topic.name}" if topic.name == "b" else None,
                )
                for topic in request.topics
            ]
        )


def topics(*names):
    return {
        name: CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in names
    }


async def test_reasons_of_failures_are_reported(autojump_clock):
    codes = {
        "b": ErrorCode.INVALID_REPLICATION_FACTOR,
        "c": ErrorCode.INVALID_CONFIG,
        "d": ErrorCode.TOPIC_ALREADY_EXISTS,
    }
    cluster = Cluster(**codes)
    failed = await cluster.create_for_client(topics("a", "b", "c", "d"), None, 10)
    assert failed == {"b": "no b", "c": ErrorCode.INVALID_CONFIG.sentence}


async def test_failed_topic_is_tried_again_later(autojump_clock):
    cluster = Cluster(b=ErrorCode.INVALID_REPLICATION_FACTOR)
    await cluster.create_for_client(topics("b"), None, 10)
    await trio.sleep(9.9)
    assert await cluster.create_for_client(topics("a", "b"), None, 10) == {"b": "no b"}
    assert cluster.asked == [["b"], ["a"]]
    await trio.sleep(0.1)
    cluster.codes = {}
    assert await cluster.create_for_client(topics("b"), None, 10) == {}
    assert cluster.asked == [["b"], ["a"], ["b"]]


async def test_topic_is_created_once_at_a_time(autojump_clock):
    cluster = Cluster()
    cluster.seconds = 1.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.create_for_client, topics("a"), None, 10)
        await trio.sleep(0.5)
        assert await cluster.create_for_client(topics("a"), None, 10) == {}
    assert cluster.asked == [["a"]]


async def test_slow_controller_delays_nobody_for_long(autojump_clock):
    cluster = Cluster()
    cluster.seconds = 100.0
    began = trio.current_time()
    assert await cluster.create_for_client(topics("a"), None, 10) == {}
    assert trio.current_time() - began == pytest.approx(CREATE_SECONDS)
    assert cluster._under_way == {}


async def test_refusing_controller_fails_all_topics(autojump_clock):
    cluster = Cluster()
    cluster.failing = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    failed = await cluster.create_for_client(topics("a", "b"), None, 10)
    assert failed == {"a": "not you", "b": "not you"}


async def test_failures_have_a_bound(autojump_clock):
    names = [f"t{number}" for number in range(FAILURES_REMEMBERED + 1)]
    cluster = Cluster(**dict.fromkeys(names, ErrorCode.INVALID_CONFIG))
    failed = await cluster.create_for_client(topics(*names), None, 10)
    assert len(failed) == FAILURES_REMEMBERED
