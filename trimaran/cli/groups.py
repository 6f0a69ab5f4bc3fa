"""`groups list|describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.cli.connect import BROKERS, Brokers, check
from trimaran.cli.output import Format, show_json, show_rows

if TYPE_CHECKING:
    from wire.blocking import BlockingClient

LATEST_TIMESTAMP = -1


def list_groups(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Lists the groups of every coordinator."""
    from wire.messages.list_groups import ListGroupsRequest

    rows = []
    with brokers.connected() as client:
        client.refresh()
        for node_id in sorted(client.routing.nodes):
            answer = client.call(node_id, ListGroupsRequest())
            rows += [
                {"group": g.group_id, "state": g.group_state, "coordinator": node_id}
                for g in answer.groups
            ]
    show_rows(
        sorted(rows, key=lambda r: str(r["group"])),
        output,
        columns=["group", "state", "coordinator"],
    )


def describe(group: str, *, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Shows members, committed offsets and lag in records."""
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
    print(f"{group}: {answer.group_state}, {len(members)} members")
    show_rows(members, output, columns=["member", "client", "host"])
    print()
    show_rows(offsets, output, columns=["topic", "partition", "committed", "end", "lag"])


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


def _offsets(client: BlockingClient, group: str) -> list[dict[str, Any]]:
    from wire.client.answers import the_one
    from wire.client.destinations import Coordinator
    from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    rows = []
    answer = client.call(Coordinator(group), request, version=8)
    for topic in the_one(answer.groups, "group").topics:
        for partition in topic.partitions:
            end = end_offset(client, topic.name, partition.partition_index)
            rows.append(
                {
                    "topic": topic.name,
                    "partition": partition.partition_index,
                    "committed": partition.committed_offset,
                    "end": end,
                    "lag": max(0, end - max(0, partition.committed_offset)),
                }
            )
    return sorted(rows, key=lambda r: (r["topic"], r["partition"]))


def end_offset(
    client: BlockingClient,
    topic: str,
    partition: int,
    timestamp: int = LATEST_TIMESTAMP,
    *,
    isolation: int = 0,
) -> int:
    """The high watermark of a partition (with `isolation` 1 the last stable offset), or what ListOffsets says for
    another special timestamp.
    """
    from wire.client.answers import the_one
    from wire.client.destinations import Leader
    from wire.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
    )
    topics = client.call(Leader(topic, partition), request).topics
    answer = the_one(the_one(topics, "topic").partitions, "partition")
    check(answer.error_code, None)
    return int(answer.offset)
