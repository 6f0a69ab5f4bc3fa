"""Reassignments of partitions: rows of those in progress, and their changes (KIP-455)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.errors.refused import Needs, check
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import BrokerId, TopicPartition
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

TIMEOUT_MS = 30_000


def reassignment_rows(
    client: BlockingClient, among: Mapping[str, Sequence[int]] | None = None
) -> list[dict[str, Any]]:
    """Returns a row for each partition that is being reassigned, of all or of those `among`, which has them by topic.
    Raises KafkaError.
    """
    topics = (
        None
        if among is None
        else [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=list(indexes))
            for name, indexes in among.items()
        ]
    )
    request = ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics)
    response = client.call(None, request)
    check(response.error_code, response.error_message, needs=Needs("DESCRIBE"))
    return [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "replicas": list(partition.replicas),
            "adding": list(partition.adding_replicas),
            "removing": list(partition.removing_replicas),
        }
        for topic in response.topics
        for partition in topic.partitions
    ]


def alter_reassignments(
    client: BlockingClient, wishes: Mapping[TopicPartition, Sequence[BrokerId] | None]
) -> dict[TopicPartition, str | None]:
    """Starts reassignments to the wanted replicas, or cancels those of partitions with None. Returns the reason of each
    refusal, None if there is none. Raises KafkaError.
    """
    topics: dict[str, list[ReassignablePartition]] = {}
    for partition, replicas in wishes.items():
        asked = ReassignablePartition(
            partition_index=partition.partition,
            replicas=None if replicas is None else list(replicas),
        )
        topics.setdefault(partition.topic, []).append(asked)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=asked) for name, asked in topics.items()],
    )
    response = client.call(None, request)
    check(response.error_code, response.error_message, needs=Needs("ALTER"))
    told: dict[TopicPartition, str | None] = {}
    for topic in response.responses:
        for result in topic.partitions:
            code = ErrorCode.of(result.error_code)
            said = result.error_message or code.name
            where = TopicPartition(topic.name, result.partition_index)
            told[where] = None if code is ErrorCode.NONE else said
    return told
