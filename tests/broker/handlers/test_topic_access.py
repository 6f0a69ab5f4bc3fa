"""Responses about topics that a client may not use, of handlers that call the authorizer themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.broker.calls import answered, call, finished
from tests.broker.groups.rig import TOPIC_ID, Rig, cluster_image, open_rig, topic_image
from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.test_zookeeper_offsets import Stored
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer
from trimaran.broker.groups.records import OFFSETS_TOPIC
from trimaran.broker.handlers import offset_fetch as module
from trimaran.broker.handlers.add_partitions_to_txn import add_partitions_to_txn
from trimaran.broker.handlers.describe_transactions import describe_transactions
from trimaran.broker.handlers.offset_commit import offset_commit
from trimaran.broker.handlers.offset_fetch import offset_fetch
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.describe_transactions import DescribeTransactionsRequest
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

E = ErrorCode
REFUSED = E.TOPIC_AUTHORIZATION_FAILED
SECRET_ID = b"topic-id-secret-"
IDS = {"t": TOPIC_ID, "secret": SECRET_ID}


def authorizer(operation: Operation = Operation.WRITE) -> Authorizer:
    """Every client may write to, and therefore describe, topic `t` but no other, or has another right to it; groups
    and transactions are unrestricted.
    """
    made = Authorizer()
    for kind, name, allowed in (
        (ResourceType.TOPIC, "t", operation),
        (ResourceType.GROUP, "*", Operation.ALL),
        (ResourceType.TRANSACTIONAL_ID, "*", Operation.ALL),
    ):
        made._index.add(
            Acl(kind, name, PatternType.LITERAL, "User:*", "*", allowed, Permission.ALLOW)
        )
    made.complete_initial_load()
    return made


async def committed(rig: Rig) -> None:
    """Commits offset 5 of `t` and of `secret` for group `g`."""
    rig.metadata.image = cluster_image(
        *(topic_image(name, topic_id, 4) for name, topic_id in IDS.items()),
        topic_image(OFFSETS_TOPIC, b"o" * 16, rig.limits.partition_count),
    )
    index = rig.index_of("g")
    rig.lead(index)
    await rig.loaded(index)
    topics = [
        OffsetCommitRequestTopic(
            name=name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=0, committed_offset=5, committed_metadata=""
                )
            ],
        )
        for name in IDS
    ]
    await rig.call(offset_commit, OffsetCommitRequest(group_id="g", topics=topics), 9)
    rig.context.authorizer = authorizer()


def fetching(version: int, names: list[str] | None) -> OffsetFetchRequest:
    if version >= 8:
        topics = names and [
            OffsetFetchRequestTopics(name=n, topic_id=IDS[n], partition_indexes=[0]) for n in names
        ]
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    asked = OffsetFetchRequest(group_id="g")
    asked.topics = names and [OffsetFetchRequestTopic(name=n, partition_indexes=[0]) for n in names]
    return asked


def found(answer: Any, version: int) -> dict[str, tuple[int, ErrorCode]]:
    names = {topic_id: name for name, topic_id in IDS.items()}
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    return {
        names[topic.topic_id] if version >= 10 else topic.name: (
            topic.partitions[0].committed_offset,
            E.of(topic.partitions[0].error_code),
        )
        for topic in topics
    }


@pytest.mark.parametrize("at_once", [1, 1_000])
@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
async def test_offsets_of_unauthorized_topics_are_hidden(tmp_path, monkeypatch, version, at_once):
    monkeypatch.setattr(module, "OFFSETS_PER_BATCH", at_once)
    async with open_rig(tmp_path) as rig:
        await committed(rig)
        answer = await rig.call(offset_fetch, fetching(version, ["secret", "t"]), version)
        assert found(answer, version) == {"t": (5, E.NONE), "secret": (-1, REFUSED)}
        if version > 1:
            answer = await rig.call(offset_fetch, fetching(version, None), version)
            assert found(answer, version) == {"t": (5, E.NONE)}


async def test_zookeeper_offsets_of_unauthorized_topics_are_hidden(tmp_path):
    async with open_rig(tmp_path) as rig:
        await committed(rig)
        rig.context.zookeeper_offsets = Stored()
        rig.context.zookeeper_offsets.offsets = {"g": {("t", 0): 5, ("secret", 0): 5}}
        answer = await rig.call(offset_fetch, fetching(0, ["secret", "t"]), 0)
        assert found(answer, 0) == {"t": (5, E.NONE), "secret": (-1, REFUSED)}


async def test_unauthorized_topics_cannot_join_transactions(tmp_path, monkeypatch):
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t", "secret")
        producer = WireProducer(one)
        await producer.begin()
        context = replace(one.broker.contexts.transactions, authorizer=authorizer())

        async def add(*names: str) -> list[ErrorCode]:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.name,
                v3_and_below_producer_id=producer.producer.id,
                v3_and_below_producer_epoch=producer.producer.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in names
                ],
            )
            answer = await finished(add_partitions_to_txn(request, context, call(request, 3)))
            results = answer.results_by_topic_v3_and_below
            return [E.of(topic.results_by_partition[0].partition_error_code) for topic in results]

        asking = DescribeTransactionsRequest(transactional_ids=[producer.name])
        assert await add("t", "secret", "none") == [E.OPERATION_NOT_ATTEMPTED, REFUSED, REFUSED]
        (described,) = (await one.call(asking)).transaction_states
        assert described.topics == []
        assert await add("t") == [E.NONE]
        await producer.add(0, topic="secret")
        (described,) = (await one.call(asking)).transaction_states
        assert {topic.topic for topic in described.topics} == {"t", "secret"}
        answer = await answered(describe_transactions, asking, context, call(asking, 0))
        (described,) = answer.transaction_states
        assert {topic.topic for topic in described.topics} == {"t"}
