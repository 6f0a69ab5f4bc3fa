"""Groups of all kinds as reported by their coordinators, with their lag."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from trimaran.client.group_kinds import kind_named
from trimaran.errors.refused import check
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.list_groups import ListGroupsRequest

if TYPE_CHECKING:
    from trimaran.client.record_ages import RecordAges
    from trimaran.wire.blocking import BlockingClient


HIDDEN: dict[str, Any] = dict.fromkeys(("topics", "partitions", "lag", "lag_seconds"))


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


def offset_rows(client: BlockingClient, described: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns a row for each partition in which a described group has a position, with the lag in records."""
    return kind_named(described["type"]).offset_rows(client, described)


def lag_rows(
    client: BlockingClient, described: Mapping[str, Any], ages: RecordAges
) -> list[dict[str, Any]]:
    """Returns a row for each partition in which a described group has a position, with the lag in records and in
    seconds: None for a record that cannot be read.
    """
    rows = offset_rows(client, described)
    for row in rows:
        row["lag_seconds"] = seconds_behind(row, ages) if row["lag"] else row["lag"]
    return rows


def seconds_behind(row: Mapping[str, Any], ages: RecordAges) -> float | None:
    """Returns the age of the first record that the group has not consumed, for a row with a lag."""
    if row["end"] is None:
        return None  # its leader did not respond
    place = TopicPartition(row["topic"], row["partition"])
    return ages.seconds(place, row["committed"] or Offset(0))


def total_lags(
    client: BlockingClient, row: Mapping[str, Any], ages: RecordAges, *, all_ages: bool
) -> dict[str, Any] | None:
    """Returns the topics and partitions in which a listed group has positions, the lag in records over all of them, and
    the age of the oldest record that is not consumed; None for what is hidden. Without `all_ages`, only the partition
    that is furthest behind is read. Returns None if the brokers list the group, but do not serve its kind.
    """
    described = _described_if_visible(client, row)
    if described is None:
        return HIDDEN
    try:
        rows = offset_rows(client, described)
    except VersionMismatch:
        return None
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        return None
    behind = sorted((one for one in rows if one["lag"]), key=lambda one: -one["lag"])
    seconds = [seconds_behind(one, ages) for one in (behind if all_ages else behind[:1])]
    is_known = not any(one["topic"] in ages.denied for one in behind)
    known = [one for one in seconds if one is not None]
    if not behind and any(one["lag"] == 0 for one in rows):
        known.append(0)
    return {
        "topics": len({one["topic"] for one in rows}),
        "partitions": len(rows),
        "lag": total_lag(rows),
        "lag_seconds": max(known, default=None) if is_known else None,
    }


def _described_if_visible(
    client: BlockingClient, row: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Returns a listed group, with its description if its positions depend on it; None if members read topics that this
    client may not describe, so that positions are hidden. Classic groups, and groups without members, do not show this.
    """
    kind = kind_named(row["type"])
    if not kind.feature or (row["state"] == "Empty" and not kind.has_rows_of_topology):
        return row
    try:
        return {**row, **(kind.describe(client, row["group"]) or {})}
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise
        return None


def total_lag(rows: Iterable[dict[str, Any]]) -> int:
    """Returns the lag in records over the partitions with known ends."""
    return sum(row["lag"] or 0 for row in rows)
