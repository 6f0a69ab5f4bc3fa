"""The limit of a client's changes per second: strict, or permissive with a later delay; for all principals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.handlers.test_create_topics import creation
from tests.quorum.controller.handlers.controller_client import controller_client, envelope
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

# One token per thousand seconds, and at most eleven windows of tokens: less than one partition, so the first use
# empties the bucket.
RATE = 0.001
THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def limit(one: Any, rate: float | None, **entity: str | None) -> None:
    entry = AlterClientQuotasRequestEntryData(
        entity=[
            EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[OpData(key="controller_mutation_rate", value=rate or 0.0, remove=rate is None)],
    )
    answer = await one.call(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert answer.entries[0].error_code == 0


def more_partitions(count: int, name: str = "t", **more: Any) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(
        topics=[topic], timeout_ms=1000, **{"validate_only": False, **more}
    )


def deletion(version: int, name: str = "t") -> DeleteTopicsRequest:
    if version < 6:
        return DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
    topics = [DeleteTopicState(name=name, topic_id=NIL_UUID)]
    return DeleteTopicsRequest(topics=topics, timeout_ms=1000)


async def exhausted(one: Any) -> None:
    """Gives Alice a topic `t` of three partitions, and no tokens."""
    await one.join(1)
    await limit(one, RATE, user="alice")
    answer = await one.forwarded(creation(partitions=3), 7, "alice")
    assert (answer.topics[0].error_code, answer.throttle_time_ms) == (0, 0)


def items(answer: Any) -> list[Any]:
    names = ("topics", "results", "responses")
    return next(getattr(answer, name) for name in names if hasattr(answer, name))


def codes_in(answer: Any) -> list[int]:
    return [result.error_code for result in items(answer)]


REQUESTS = [
    (creation("u"), 6),
    (more_partitions(4), 3),
    (deletion(5), 5),
    (deletion(6), 6),
]


@pytest.mark.parametrize(("request_", "version"), REQUESTS)
async def test_principal_without_tokens_is_refused(tmp_path, request_, version):
    async with controller_client(tmp_path) as one:
        await exhausted(one)
        before = one.image.topics
        answer = await one.forwarded(request_, version, "alice")
        assert codes_in(answer) == [THROTTLED]
        assert [result.error_message for result in items(answer)] == [None]
        # Three partitions, less the initial content of the bucket: 0.011.
        assert answer.throttle_time_ms == pytest.approx((3 - 0.011) / RATE * 1000, rel=0.05)
        assert one.image.topics is before
        assert codes_in(await one.forwarded(request_, version, "bob")) == [0]


@pytest.mark.parametrize(
    ("request_", "version"), [(creation("u"), 5), (more_partitions(4), 2), (deletion(4), 4)]
)
async def test_versions_without_throttling_error_are_let_through(tmp_path, request_, version):
    async with controller_client(tmp_path) as one:
        await exhausted(one)
        answer = await one.forwarded(request_, version, "alice")
        assert codes_in(answer) == [0]
        assert answer.throttle_time_ms > 3 / RATE * 1000 * 0.95
        assert codes_in(await one.forwarded(creation("v"), 7, "alice")) == [THROTTLED]


async def test_topics_of_a_request_are_throttled_individually(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await limit(one, RATE, user="alice")
        request = creation("a").replace(topics=[*creation("a").topics, *creation("b").topics])
        answer = await one.forwarded(request, 7, "alice")
        assert {topic.name: topic.error_code for topic in answer.topics} == {"a": 0, "b": THROTTLED}
        assert answer.throttle_time_ms > 0


async def test_refused_and_failed_changes_cost_no_tokens(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await limit(one, RATE, user="alice")
        for _ in range(2):
            answer = await one.forwarded(creation(replicas=3), 7, "alice")
            assert codes_in(answer) == [ErrorCode.INVALID_REPLICATION_FACTOR]
        assert codes_in(await one.forwarded(creation(), 7, "alice")) == [0]


async def test_validate_only_requests_count_too(tmp_path):
    """Kafka charges such requests too."""
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await limit(one, RATE, user="alice")
        assert codes_in(await one.forwarded(creation(validate_only=True), 7, "alice")) == [0]
        assert codes_in(await one.forwarded(creation(), 7, "alice")) == [THROTTLED]


@pytest.mark.parametrize(
    "entity",
    [
        {"user": None},
        {"client_id": "client"},
        {"client_id": None},
        {"user": "alice", "client_id": "client"},
    ],
)
async def test_quota_of_any_matching_entity_applies(tmp_path, entity):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await limit(one, RATE, **entity)
        assert codes_in(await one.forwarded(creation("a"), 7, "alice")) == [0]
        assert codes_in(await one.forwarded(creation("b"), 7, "alice")) == [THROTTLED]
        await limit(one, None, **entity)
        assert codes_in(await one.forwarded(creation("b"), 7, "alice")) == [0]


async def test_connection_of_forwarding_broker_is_not_muted(tmp_path):
    """Other clients use the same connection; the broker mutes the client's."""
    async with controller_client(tmp_path) as one:
        await exhausted(one)
        for _ in range(3):
            assert (await one.call(envelope(creation("u"), 7, "alice"))).error_code == 0
