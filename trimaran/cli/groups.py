"""`groups list|describe`."""

from __future__ import annotations

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, counted, show_json, show_rows
from trimaran.client.connect import check
from trimaran.client.groups import described_group, group_rows, lag_rows, total_lag


def list_groups(*, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Lists the groups of every coordinator."""
    with brokers.connected() as client:
        rows = group_rows(client)
    show_rows(rows, output, columns=["group", "type", "state", "coordinator"])


def describe(group: str, *, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Shows members, committed offsets and lag: in records, and as the age of the first record not consumed."""
    with brokers.connected() as client:
        answer = described_group(client, group)
        check(answer.error_code, answer.error_message)
        offsets = lag_rows(client, group)
    members = [
        {"member": m.member_id, "client": m.client_id, "host": m.client_host}
        for m in answer.members
    ]
    if output == "json":
        show_json(
            {"group": group, "state": answer.group_state, "members": members, "offsets": offsets}
        )
        return
    behind = counted(total_lag(offsets), "record")
    print(f"{group}: {answer.group_state}, {counted(len(members), 'member')}, {behind} behind")
    if members:
        show_rows(members, output, columns=["member", "client", "host"])
        print()
    columns = ["topic", "partition", "committed", "end", "lag", "lag_seconds"]
    show_rows(offsets, output, columns=columns)
