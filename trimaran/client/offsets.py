"""Offsets from brokers: the start and end offsets of a partition, and offsets by timestamp."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trimaran.errors.refused import Needs, check
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NO_BROKER, Offset, TopicPartition
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

# Kafka's special timestamps of ListOffsets.
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP = -1, -2, -3
# For supplementary data: a broker that is frozen or gone must not prevent the rest from being shown.
ASIDE_SECONDS = 2.0


def end_offset(
    client: BlockingClient,
    partition: TopicPartition,
    timestamp: int = LATEST_TIMESTAMP,
    *,
    isolation: int = 0,
) -> Offset:
    """Returns the high watermark of a partition (with `isolation` 1 the last stable offset), or the result of
    ListOffsets for another special timestamp.
    """
    wanted = ListOffsetsPartition(partition_index=partition.partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=NO_BROKER,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])],
    )
    topics = client.call(LeaderNode(partition), request).topics
    response = single_item(single_item(topics, "topic").partitions, "partition")
    check(response.error_code, None, str(partition), Needs("DESCRIBE", topic=partition.topic))
    return Offset(response.offset)


def out_of_range(
    partition: TopicPartition, offset: Offset, start: Offset, end: Offset
) -> KafkaError:
    """Returns the error for an offset that is not in a partition, with the offsets that are."""
    there = f"there are offsets {start} to {end - 1}" if end > start else "it has no records"
    return KafkaError(
        ErrorCode.OFFSET_OUT_OF_RANGE,
        f"{partition.topic}-{partition.partition} at offset {offset}, but {there}",
    )


def end_offsets(
    client: BlockingClient,
    partitions: Iterable[TopicPartition],
    timestamp: int = LATEST_TIMESTAMP,
    *,
    isolation: int = 0,
) -> dict[TopicPartition, Offset]:
    """Returns `end_offset` for many partitions, with one request for each leader; partitions are omitted if their
    leader does not respond within `ASIDE_SECONDS`.
    """
    listed = _listed(client, partitions, timestamp, isolation)
    return {partition: result.offset for partition, result in listed.items()}


def newest_timestamps(
    client: BlockingClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Returns the largest timestamp of the records of each partition, in ms; -1 without records. Partitions are omitted
    as in `end_offsets`.
    """
    listed = _listed(client, partitions, MAX_TIMESTAMP, isolation=0)
    return {partition: result.timestamp for partition, result in listed.items()}


def _listed(
    client: BlockingClient, partitions: Iterable[TopicPartition], timestamp: int, isolation: int
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    wanted = sorted(partitions)
    if not wanted:
        return {}
    client.refresh(sorted({topic for topic, _ in wanted}))
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = {}
    for key in wanted:
        leader = client.routing.leader(key)
        if leader is not None and leader.leader_id in client.routing.nodes:
            asked = ListOffsetsPartition(partition_index=key.partition, timestamp=timestamp)
            by_leader.setdefault(leader.leader_id, {}).setdefault(key.topic, []).append(asked)
    found = {}
    for leader_id, topics in by_leader.items():
        named = [ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()]
        request = ListOffsetsRequest(replica_id=NO_BROKER, isolation_level=isolation, topics=named)
        try:
            response = client.call(leader_id, request, timeout=ASIDE_SECONDS)
        except (ConnectionLost, RequestTimedOut):
            continue
        for each_topic in response.topics:
            for partition in each_topic.partitions:
                if not partition.error_code:
                    key = TopicPartition(each_topic.name, partition.partition_index)
                    found[key] = partition
    return found
