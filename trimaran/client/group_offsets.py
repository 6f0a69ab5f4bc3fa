"""Committed offsets of a group, and their lag. Classic, consumer and streams groups have them; the positions of share
groups are in `share_groups.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from trimaran.client.offsets import end_offsets
from trimaran.errors.refused import Needs, check, check_group
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message


def of_coordinator(
    client: BlockingClient, group: str, request: Message, version: int | None = None
) -> Any:
    """Returns the only group of the coordinator's response."""
    response = client.call(CoordinatorNode(group), request, version=version)
    return single_item(response.groups, "group")


def committed_offsets(client: BlockingClient, group: str) -> dict[TopicPartition, Offset]:
    """Returns the committed offsets of a group by topic and partition; none for a missing group. A negative offset
    counts as none, as in Kafka's tools: some clients commit -2 for "the earliest".
    """
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    response = of_coordinator(client, group, request, version=8)
    check(response.error_code, None, f"group {group}", Needs("DESCRIBE", group=group))
    return {
        TopicPartition(topic.name, partition.partition_index): partition.committed_offset
        for topic in response.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def committed_positions(
    client: BlockingClient, described: Mapping[str, Any]
) -> dict[TopicPartition, Offset]:
    """Returns the committed offsets of a group."""
    return committed_offsets(client, described["group"])


def committed_rows(client: BlockingClient, described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each committed offset, with its lag."""
    return lag_in_records(client, committed_offsets(client, described["group"]))


def lag_in_records(
    client: BlockingClient, committed: Mapping[TopicPartition, Offset]
) -> list[dict[str, Any]]:
    """Returns rows with the lag; `end` and `lag` are None if the leader of a partition does not report its end."""
    ends = end_offsets(client, committed)
    rows = []
    for (topic, partition), offset in sorted(committed.items()):
        end = ends.get(TopicPartition(topic, partition))
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "committed": offset,
                "end": end,
                "lag": None if end is None else max(0, end - max(Offset(0), offset)),
            }
        )
    return rows


def delete_offsets(
    client: BlockingClient, group: str, partitions: Collection[TopicPartition]
) -> int:
    """Deletes committed offsets, and returns their number. Raises KafkaError, and UserError if there is no such
    group.
    """
    by_topic: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for name, index in sorted(partitions):
        wanted = OffsetDeleteRequestPartition(partition_index=index)
        by_topic.setdefault(name, []).append(wanted)
    topics = [OffsetDeleteRequestTopic(name=t, partitions=p) for t, p in by_topic.items()]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    response = client.call(CoordinatorNode(group), request)
    check_group(group, response.error_code, operation="DELETE")
    for topic in response.topics:
        for partition in topic.partitions:
            where = f"{topic.name}-{partition.partition_index}"
            check(partition.error_code, None, where, Needs("READ", topic=topic.name))
    return sum(len(topic.partitions) for topic in response.topics)
