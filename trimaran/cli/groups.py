"""`groups list|describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from node.runtime.clock import now_ms
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, counted, show_json, show_rows
from trimaran.client.connect import check
from trimaran.client.offsets import end_offset

if TYPE_CHECKING:
    from wire.blocking import BlockingClient


def list_groups(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Lists the groups of every coordinator."""
    from wire.messages.list_groups import ListGroupsRequest

    rows = []
    with brokers.connected() as client:
        client.refresh()
        for node_id in sorted(client.routing.nodes):
            answer = client.call(node_id, ListGroupsRequest())
            rows += [
                {
                    "group": g.group_id,
                    "type": g.group_type,
                    "state": g.group_state,
                    "coordinator": node_id,
                }
                for g in answer.groups
            ]
    show_rows(
        sorted(rows, key=lambda r: str(r["group"])),
        output,
        columns=["group", "type", "state", "coordinator"],
    )


def describe(group: str, *, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Shows members, committed offsets and lag: in records, and as the age of the first record not consumed."""
    with brokers.connected() as client:
        answer = _described(client, group)
        check(answer.error_code, answer.error_message)
        offsets = _offsets(client, group)
    members = [
        {"member": m.member_id, "client": m.client_id, "host": m.client_host}
        for m in answer.members
    ]
    if output == "json":
        show_json(
            {"group": group, "state": answer.group_state, "members": members, "offsets": offsets}
        )
        return
    lag = sum(row["lag"] for row in offsets)
    print(
        f"{group}: {answer.group_state}, {counted(len(members), 'member')}, {counted(lag, 'record')} behind"
    )
    if members:
        show_rows(members, output, columns=["member", "client", "host"])
        print()
    columns = ["topic", "partition", "committed", "end", "lag", "lag_seconds"]
    show_rows(offsets, output, columns=columns)


def _described(client: BlockingClient, group: str) -> Any:
    """Of a classic group, else of one of the consumer protocol, which is asked for by another request."""
    from wire.client.answers import the_one
    from wire.client.destinations import Coordinator
    from wire.errors import ErrorCode
    from wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
    from wire.messages.describe_groups import DescribeGroupsRequest

    classic = the_one(
        client.call(Coordinator(group), DescribeGroupsRequest(groups=[group])).groups, "group"
    )
    if classic.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        return classic
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    answer = the_one(client.call(Coordinator(group), request).groups, "group")
    return classic if answer.error_code else answer


def committed_offsets(client: BlockingClient, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed, by topic and partition; nothing for a group that there is not."""
    from wire.client.answers import the_one
    from wire.client.destinations import Coordinator
    from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    answer = the_one(client.call(Coordinator(group), request, version=8).groups, "group")
    check(answer.error_code, None)
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in answer.topics
        for partition in topic.partitions
    }


def _offsets(client: BlockingClient, group: str) -> list[dict[str, Any]]:
    rows = []
    for (topic, partition), committed in sorted(committed_offsets(client, group).items()):
        end = end_offset(client, topic, partition)
        lag = max(0, end - max(0, committed))
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "committed": committed,
                "end": end,
                "lag": lag,
                "lag_seconds": _age(client, topic, partition, committed) if lag else 0,
            }
        )
    return rows


def _age(client: BlockingClient, topic: str, partition: int, offset: int) -> float | None:
    """Seconds since the timestamp of the record at `offset`, or of the next one; None where there is none."""
    from trimaran.client.reader import Reader

    timestamp_ms = Reader(client, topic, [partition], is_committed=False).timestamp_at(
        partition, max(0, offset)
    )
    return None if timestamp_ms is None else max(0, now_ms() - timestamp_ms) / 1000
