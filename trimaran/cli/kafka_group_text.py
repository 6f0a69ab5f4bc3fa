"""The texts of Apache Kafka's tools about groups, for `-o kafka`: of `kafka-consumer-groups`, `kafka-share-groups` and
`kafka-streams-groups`, as Kafka 4.4 prints them without `--verbose`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
MISSING = "-"
MIN_WIDTH, INSTANCE_WIDTH, COORDINATOR_WIDTH, STRATEGY_WIDTH, STATE_WIDTH = 15, 17, 25, 20, 20


def groups_list(rows: Sequence[Row]) -> str:
    """`--list` of each of the tools."""
    return "\n".join(str(row["group"]) for row in rows)


def groups_in_states(rows: Sequence[Row]) -> str:
    """`--list --state` of each of the tools."""
    width = max([MIN_WIDTH, *(len(row["group"]) for row in rows)])
    lines = [("GROUP", "STATE"), *((row["group"], row["state"]) for row in rows)]
    return "\n".join(f"{group.ljust(width)} {state}" for group, state in lines)


def consumer_offsets(group: Row, rows: Sequence[Row]) -> str:
    """`kafka-consumer-groups --describe`, with an empty line before and after."""
    names = ("topic", "partition", "committed", "end", "lag", "member", "host", "client")
    cells = [[group["group"], *(_cell(row[name]) for name in names)] for row in rows]
    widths = [max([MIN_WIDTH, *(len(line[i]) for line in cells)]) for i in (0, 1, 6, 7)]
    head = [
        "GROUP",
        "TOPIC",
        "PARTITION",
        "CURRENT-OFFSET",
        "LOG-END-OFFSET",
        "LAG",
        "CONSUMER-ID",
        "HOST",
    ]
    sizes = [widths[0], widths[1], 10, 15, 15, 15, widths[2], widths[3]]
    return _under_each_other([[*head, "CLIENT-ID"], *cells], sizes)


def consumer_members(group: Row) -> str:
    """`kafka-consumer-groups --describe --members`."""
    members = group["members"]
    is_static = any(member["instance"] for member in members)
    names = ["member", *(["instance"] if is_static else []), "host", "client"]
    heads = {
        "member": "CONSUMER-ID",
        "instance": "GROUP-INSTANCE-ID",
        "host": "HOST",
        "client": "CLIENT-ID",
    }
    least = {"instance": INSTANCE_WIDTH}
    lines = [
        [
            group["group"],
            *(str(member[name] or "") for name in names),
            str(sum(map(len, member["assignment"].values()))),
        ]
        for member in members
    ]
    widths = [
        max([least.get(name, MIN_WIDTH), *(len(line[i]) for line in lines)])
        for i, name in enumerate(["group", *names])
    ]
    head = ["GROUP", *(heads[name] for name in names), "#PARTITIONS"]
    return "\n" + "\n".join(
        " ".join(cell.ljust(width) for cell, width in zip(line, [*widths, MIN_WIDTH], strict=True))
        + " "
        for line in [head, *lines]
    )


def consumer_state(group: Row) -> str:
    """`kafka-consumer-groups --describe --state`."""
    coordinator = f"{group['coordinator_address']}  ({group['coordinator']})"
    lines = [
        ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"],
        [
            group["group"],
            coordinator,
            group["assignor"] or MISSING,
            group["state"],
            str(len(group["members"])),
        ],
    ]
    least = (MIN_WIDTH, COORDINATOR_WIDTH, STRATEGY_WIDTH, STATE_WIDTH)
    widths = [max(low, len(lines[1][i])) for i, low in enumerate(least)]
    return _under_each_other(lines, widths)


def share_offsets(group: Row, rows: Sequence[Row]) -> str:
    """`kafka-share-groups --describe`, with an empty line before each line."""
    if not rows:
        return f"\nShare group '{group['group']}' has no offset information."
    names = ("topic", "partition", "committed", "lag")
    cells = [[group["group"], *(_cell(row[name]) for name in names)] for row in rows]
    widths = [max([MIN_WIDTH, *(len(line[i]) for line in cells)]) for i in (0, 1)]
    head = ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    return _under_each_other([head, *cells], [*widths, 10, 13])


def share_members(group: Row) -> str:
    """`kafka-share-groups --describe --members`."""
    names = ("member", "host", "client")
    cells = [
        [
            group["group"],
            *(str(member[name]) for name in names),
            str(sum(map(len, member["assignment"].values()))),
            ";".join(
                f"{topic}:{','.join(map(str, sorted(partitions)))}"
                for topic, partitions in sorted(member["assignment"].items())
            ),
        ]
        for member in sorted(group["members"], key=lambda member: str(member["member"]))
    ]
    widths = [max([MIN_WIDTH, *(len(line[i]) for line in cells)]) for i in range(4)]
    head = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"]
    return _under_each_other([head, *cells], [*widths, 12])


def share_state(group: Row) -> str:
    """`kafka-share-groups --describe --state`."""
    coordinator = f"{group['coordinator_address']}  ({group['coordinator']})"
    lines = [
        ["GROUP", "COORDINATOR (ID)", "STATE", "#MEMBERS"],
        [group["group"], coordinator, group["state"], str(len(group["members"]))],
    ]
    widths = [max(MIN_WIDTH, len(group["group"])), max(COORDINATOR_WIDTH, len(coordinator)), 15]
    return _under_each_other(lines, widths)


def streams_offsets(group: Row, rows: Sequence[Row]) -> str:
    """`kafka-streams-groups --describe`: without members it has no rows."""
    names = ("topic", "partition", "lag")
    cells = [[group["group"], *(_cell(row[name]) for name in names)] for row in rows]
    widths = [max([MIN_WIDTH, *(len(line[i]) for line in cells)]) for i in (0, 1)]
    head = ["GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"]
    return _under_each_other([head, *cells], [*widths, 10]).removeprefix("\n")


def streams_members(group: Row) -> str:
    """`kafka-streams-groups --describe --members`."""
    names = ("member", "process", "client")
    cells = [
        [group["group"], *(str(member[name]) for name in names), _tasks(member)]
        for member in group["members"]
    ]
    widths = [max([MIN_WIDTH, *(len(line[i]) for line in cells)]) for i in range(4)]
    head = ["GROUP", "MEMBER", "PROCESS", "CLIENT-ID", "ASSIGNMENTS"]
    return _under_each_other([head, *cells], widths).removeprefix("\n")


def _tasks(member: Row) -> str:
    kinds = {"ACTIVE": "assignment", "STANDBY": "standby", "WARMUP": "warmup"}
    return "".join(
        f"{kind}: "
        + "".join(f"{one}:[{','.join(map(str, tasks))}]; " for one, tasks in member[key].items())
        for kind, key in kinds.items()
        if member[key]
    )


def streams_state(group: Row) -> str:
    """`kafka-streams-groups --describe --state`."""
    coordinator = f"{group['coordinator_address']} ({group['coordinator']})"
    assignor = group["assignor"] or ""
    lines = [
        ["GROUP", "COORDINATOR (ID)", "ASSIGNOR", "STATE", "#MEMBERS"],
        [group["group"], coordinator, assignor, group["state"], str(len(group["members"]))],
    ]
    widths = [
        max(MIN_WIDTH, len(group["group"])),
        max(COORDINATOR_WIDTH, len(coordinator)),
        max(MIN_WIDTH, len(assignor)),
        25,
    ]
    return _under_each_other(lines, widths).removeprefix("\n")


def topology(described: Row) -> str:
    """`kafka-streams-groups --describe --topology`."""
    lines = ["Topologies:"]
    for told in described["subtopologies"]:
        lines.append(f"   Sub-topology: {told['subtopology']}")
        lines += [f"    {_node(node)}" for node in told["nodes"]]
        lines.append("")
    for number, store in enumerate(described["global_stores"], len(described["subtopologies"])):
        lines.append(f"   Sub-topology: {number} for global store (will not generate tasks)")
        lines += [f"    {_node(node)}" for node in store["nodes"]]
        lines.append("")
    return "\n".join([*lines, ""])


def _node(node: Row) -> str:
    after = f"\n      --> {_names(node['successors'])}"
    before = f"\n      <-- {_names(node['predecessors'])}"
    name = node["name"]
    if node["type"] == "source":
        return f"Source: {name} (topics: [{', '.join(node['topics'])}]){after}"
    if node["type"] == "sink":
        return f"Sink: {name} (topic: {node['topic'] or 'null'}){before}"
    return f"Processor: {name} (stores: [{', '.join(node['stores'])}]){after}{before}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _cell(value: Any) -> str:
    return MISSING if value is None else str(value)


def _under_each_other(lines: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Puts a line break before each line and none at the end, like the formats of the tool."""
    return "".join(
        "\n" + " ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), line[-1]])
        for line in lines
    )
