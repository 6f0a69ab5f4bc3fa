"""Groups of all kinds as reported by their coordinators: members, committed offsets, lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trimaran.client.offsets import end_offsets
from trimaran.client.reader import TopicReader
from trimaran.errors.refused import check
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.client.destinations import CoordinatorNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from trimaran.wire.messages.list_groups import ListGroupsRequest
from trimaran.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.schema import Message

SHARE = "share"


def group_rows(client: BlockingClient) -> list[dict[str, Any]]:
    """Returns a row for each group of every coordinator, by name."""
    client.refresh()
    rows = []
    for node_id in sorted(client.routing.nodes):
        response = client.call(node_id, ListGroupsRequest())
        check(response.error_code, None)
        rows += [
            {
                "group": group.group_id,
                "type": group.group_type,
                "state": group.group_state,
                "coordinator": node_id,
            }
            for group in response.groups
        ]
    return sorted(rows, key=lambda row: str(row["group"]))


def _of_coordinator(
    client: BlockingClient, group: str, request: Message, version: int | None = None
) -> Any:
    return single_item(
        client.call(CoordinatorNode(group), request, version=version).groups, "group"
    )


def committed_offsets(client: BlockingClient, group: str) -> dict[TopicPartition, Offset]:
    """Returns the committed offsets of a group by topic and partition; none for a missing group. A negative offset
    counts as none, as in Kafka's tools: some clients commit -2 for "the earliest".
    """
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    response = _of_coordinator(client, group, request, version=8)
    check(response.error_code, None)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.committed_offset
        for topic in response.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0
    }


def offset_rows(client: BlockingClient, group: str, kind: str) -> list[dict[str, Any]]:
    """Returns a row for each partition in which the group has a position, with the lag in records.

    The lag of a share group comes from its coordinator (KIP-1226): records after its start offset may be acknowledged
    already, so it does not follow from the end of the partition.
    """
    if kind.lower() != SHARE:
        return lag_in_records(client, committed_offsets(client, group))
    described = _share_offsets(client, group)
    starts = {place: offsets.start_offset for place, offsets in described.items()}
    rows = lag_in_records(client, starts)
    for row in rows:
        one = described[TopicPartition(row["topic"], row["partition"])]
        if one.start_offset < 0:  # a member is subscribed, but nothing was delivered yet
            row["committed"] = None
        row["lag"] = one.lag if one.lag >= 0 else None
    return rows


def _share_offsets(client: BlockingClient, group: str) -> dict[TopicPartition, Any]:
    """Returns the start offsets of a share group in its partitions (KIP-932)."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    response = _of_coordinator(client, group, DescribeShareGroupOffsetsRequest(groups=[asked]))
    check(response.error_code, response.error_message)
    return {
        TopicPartition(topic.topic_name, partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }


def lag_rows(client: BlockingClient, group: str, kind: str = "") -> list[dict[str, Any]]:
    """Returns a row for each partition with a committed offset, with the lag in records and in seconds."""
    rows = offset_rows(client, group, kind)
    for row in rows:
        row["lag_seconds"] = (
            age_seconds(
                client,
                TopicPartition(row["topic"], row["partition"]),
                row["committed"] or Offset(0),
            )
            if row["lag"]
            else row["lag"]
        )
    return rows


def lag_in_records(
    client: BlockingClient, committed: dict[TopicPartition, Offset]
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


def total_lag(rows: Iterable[dict[str, Any]]) -> int:
    """Returns the lag in records over the partitions with known ends."""
    return sum(row["lag"] or 0 for row in rows)


def age_seconds(client: BlockingClient, partition: TopicPartition, offset: Offset) -> float | None:
    """Returns the seconds since the timestamp of the record at `offset`, or of the next one; None if there is none."""
    reader = TopicReader(client, partition.topic, [partition.partition], is_committed=False)
    timestamp_ms = reader.timestamp_at(partition.partition, max(Offset(0), offset))
    return None if timestamp_ms is None else max(0, now_ms() - timestamp_ms) / 1000
