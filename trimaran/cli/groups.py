"""`groups list|describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.cli.connect import DEFAULT_DATA, Bootstrap, Data, bootstrap_of, connected
from trimaran.cli.output import Format, show_json, show_rows

if TYPE_CHECKING:
    from wire.blocking import BlockingClient


def list_groups(
    *, bootstrap: Bootstrap = None, data: Data = DEFAULT_DATA, output: Format = "table"
) -> None:
    """Lists the groups of every coordinator."""
    from wire.messages.list_groups import ListGroupsRequest

    rows = []
    with connected(bootstrap_of(bootstrap, data)) as client:
        for node_id in client.broker_ids():
            answer = client.call(ListGroupsRequest(), node_id=node_id)
            rows += [{"group": g.group_id, "state": g.group_state, "coordinator": node_id} for g in answer.groups]
    show_rows(sorted(rows, key=lambda r: str(r["group"])), output, columns=["group", "state", "coordinator"])


def describe(
    group: str, *, bootstrap: Bootstrap = None, data: Data = DEFAULT_DATA, output: Format = "table"
) -> None:
    """Shows members, committed offsets and lag in records."""
    from wire.messages.describe_groups import DescribeGroupsRequest

    with connected(bootstrap_of(bootstrap, data)) as client:
        coordinator = client.coordinator_of(group)
        answer = client.call(DescribeGroupsRequest(groups=[group]), node_id=coordinator).groups[0]
        offsets = _offsets(client, coordinator, group)
    members = [{"member": m.member_id, "client": m.client_id, "host": m.client_host} for m in answer.members]
    if output == "json":
        show_json({"group": group, "state": answer.group_state, "members": members, "offsets": offsets})
        return
    print(f"{group}: {answer.group_state}, {len(members)} members, coordinator {coordinator}")
    show_rows(members, output, columns=["member", "client", "host"])
    print()
    show_rows(offsets, output, columns=["topic", "partition", "committed", "end", "lag"])


def _offsets(client: BlockingClient, coordinator: int, group: str) -> list[dict[str, Any]]:
    from wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    rows = []
    for topic in client.call(request, node_id=coordinator, version=8).groups[0].topics:
        for partition in topic.partitions:
            end = client.end_offset(topic.name, partition.partition_index)
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
