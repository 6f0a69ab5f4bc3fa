"""`groups list|describe|lag`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli import kafka_text
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, KafkaFormat, put, say, show_data, show_rows
from trimaran.cli.progress import progress
from trimaran.client import group_members
from trimaran.client import groups as client_groups
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimaran.wire.blocking import BlockingClient

Flag = Annotated[bool, Parameter(negative=())]
OFFSET_COLUMNS = ("topic", "partition", "committed", "end", "lag", "lag_seconds", "client", "host")
MEMBER_COLUMNS = ("member", "instance", "client", "host", "partitions", "assignment")
STATE_COLUMNS = ("group", "type", "state", "assignor", "epoch", "coordinator", "members")
LAG_COLUMNS = ("group", "type", "state", "partitions", "lag", "lag_seconds")


def list_groups(*, brokers: Brokers = BROKERS, output: KafkaFormat = "table") -> None:
    """Lists the groups of every coordinator: classic, consumer, share and streams."""
    with brokers.connected() as client:
        rows = client_groups.group_rows(client)
    show_rows(
        rows,
        output,
        columns=["group", "type", "state", "coordinator"],
        noun="group",
        kafka=lambda: kafka_text.groups_list(rows),
    )


def describe(
    group: str,
    *,
    members: Flag = False,
    state: Flag = False,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> None:
    """Shows the committed offsets and the lag of a group: in records, and in seconds as the age of the next record.

    Args:
        group: A group of any type: classic, consumer, share or streams.
        members: Show the members instead, and the partitions assigned to each.
        state: Show type, state, assignor, epoch and coordinator instead.
    """
    if members and state:
        raise UserError(
            "--members and --state cannot be combined",
            "each shows a different view of the group",
            "use one after the other, or -o json for everything",
            exit_code=Exit.USAGE,
        )

    with brokers.connected() as client:
        found = group_members.group_described(client, group)
        if members:
            _show_members(found, output)
        elif state:
            _show_state(found, output)
        else:
            _show_offsets(found, _offsets(client, found), output)


def lag(*groups: str, brokers: Brokers = BROKERS, output: Format = "table") -> None:
    """Shows the lag of groups: records over all partitions, and seconds of the partition that is furthest behind.

    Args:
        groups: Groups to show; by default all.
    """
    with brokers.connected() as client:
        found = [
            row for row in client_groups.group_rows(client) if not groups or row["group"] in groups
        ]
        if missing := sorted(set(groups) - {str(row["group"]) for row in found}):
            raise refused.no_group(*missing)
        rows = []
        with progress("asking for offsets", len(found), unit="group") as bar:
            for row in found:
                rows.append(_lag(client, row))
                bar.at(len(rows))
    show_rows(rows, output, columns=LAG_COLUMNS, noun="group")


def _lag(client: BlockingClient, group: Mapping[str, Any]) -> dict[str, Any]:
    rows = client_groups.lag_rows(client, str(group["group"]), str(group["type"]).lower())
    seconds = [row["lag_seconds"] for row in rows if row["lag_seconds"] is not None]
    return {
        **group,
        "partitions": len(rows),
        "lag": client_groups.total_lag(rows),
        "lag_seconds": max(seconds, default=None),
    }


def _offsets(client: BlockingClient, found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the committed or assigned partitions in order, each with its member."""
    owners = group_members.owners_of(found)
    rows = {
        identity.TopicPartition(row["topic"], row["partition"]): row
        for row in client_groups.lag_rows(client, str(found["group"]), str(found["type"]))
    }
    for row in client_groups.lag_in_records(
        client, dict.fromkeys(owners.keys() - rows.keys(), identity.NO_OFFSET)
    ):
        # Nothing is committed: the lag depends on where the consumer would begin.
        rows[identity.TopicPartition(row["topic"], row["partition"])] = {
            **row,
            "committed": None,
            "lag": None,
            "lag_seconds": None,
        }
    return [
        {
            **rows[key],
            **{name: owners.get(key, {}).get(name) for name in ("member", "client", "host")},
        }
        for key in sorted(rows)
    ]


def _show_offsets(found: Mapping[str, Any], offsets: Sequence[dict[str, Any]], output: str) -> None:
    group, members = str(found["group"]), found["members"]
    if output == "kafka":
        _tell_state(found)
        put(kafka_text.group_offsets(group, offsets))
        return
    if show_data({**found, "offsets": offsets}, output):
        return
    behind = counted(client_groups.total_lag(offsets), "record")
    put(f"{group}: {found['state']}, {counted(len(members), 'member')}, {behind} behind")
    show_rows(offsets, output, columns=OFFSET_COLUMNS, noun="partition")


def _show_members(found: Mapping[str, Any], output: str) -> None:
    if output == "kafka":
        _tell_state(found)
        put(kafka_text.group_members(str(found["group"]), found["members"]))
        return
    if show_data(found["members"], output):
        return
    rows = [
        {
            **member,
            "partitions": sum(map(len, member["assignment"].values())),
            "assignment": _assigned(member["assignment"]),
        }
        for member in found["members"]
    ]
    show_rows(rows, output, columns=MEMBER_COLUMNS, noun="member")


def _assigned(assignment: Mapping[str, Sequence[int]]) -> list[str]:
    """Returns an assignment as text: `orders(0,1)`."""
    return [
        f"{topic}({','.join(map(str, sorted(partitions)))})"
        for topic, partitions in sorted(assignment.items())
    ]


def _show_state(found: Mapping[str, Any], output: str) -> None:
    if output == "kafka":
        _tell_state(found)
        put(kafka_text.group_state(found))
        return
    show_rows([{**found, "members": len(found["members"])}], output, columns=STATE_COLUMNS)


def _tell_state(found: Mapping[str, Any]) -> None:
    """Returns the text that Kafka's tool prints on stderr for a group that is not stable."""
    if found["state"] == "Empty":
        say(f"\nConsumer group '{found['group']}' has no active members.")
    elif found["state"] != "Stable":
        say(f"\nWarning: Consumer group '{found['group']}' is rebalancing.")
