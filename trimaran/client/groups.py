"""Groups of all kinds as reported by their coordinators, with their lag."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from trimaran.client.group_kinds import kind_named
from trimaran.client.offsets import EARLIEST_TIMESTAMP, end_offset
from trimaran.client.reader import TopicReader
from trimaran.errors.refused import check
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.list_groups import ListGroupsRequest

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


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
                "protocol": group.protocol_type,
                "state": group.group_state,
                "coordinator": node_id,
            }
            for group in response.groups
        ]
    return sorted(rows, key=lambda row: str(row["group"]))


def with_members(client: BlockingClient, kinds: Collection[str]) -> list[dict[str, Any]]:
    """Returns the rows of the groups of these kinds that have members."""
    return [
        row
        for row in group_rows(client)
        if row["type"].lower() in kinds and row["state"] not in ("Empty", "Dead")
    ]


def offset_rows(client: BlockingClient, group: str, kind: str) -> list[dict[str, Any]]:
    """Returns a row for each partition in which the group has a position, with the lag in records."""
    return kind_named(kind).offset_rows(client, group)


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


def total_lag(rows: Iterable[dict[str, Any]]) -> int:
    """Returns the lag in records over the partitions with known ends."""
    return sum(row["lag"] or 0 for row in rows)


def age_seconds(client: BlockingClient, partition: TopicPartition, offset: Offset) -> float | None:
    """Returns the seconds since the timestamp of the record at `offset`, or of the next one; None if there is none. An
    offset before the start of the partition means its start.
    """
    reader = TopicReader(client, partition.topic, [partition.partition], is_committed=False)
    try:
        timestamp_ms = reader.timestamp_at(partition.partition, max(Offset(0), offset))
    except KafkaError as error:
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise
        start = end_offset(client, partition, EARLIEST_TIMESTAMP)
        timestamp_ms = reader.timestamp_at(partition.partition, start)
    return None if timestamp_ms is None else max(0, now_ms() - timestamp_ms) / 1000
