"""`groups list|describe|lag`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli import group_views, kafka_group_text, names
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.folding import show_folded
from trimaran.cli.group_topology import show_topology, topology_of
from trimaran.cli.group_views import STATES, Kinds
from trimaran.cli.output import Format, KafkaFormat, put, say, show_data, show_rows
from trimaran.cli.progress import progress
from trimaran.client import group_members, group_offsets, record_ages
from trimaran.client import groups as client_groups
from trimaran.errors import refused
from trimaran.errors.similar import did_you_mean
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trimaran.wire.blocking import BlockingClient

Flag = Annotated[bool, Parameter(negative=())]
LIST_COLUMNS = ("group", "type", "protocol", "state", "coordinator")
LAG_COLUMNS = ("group", "type", "state", "partitions", "lag", "lag_seconds")
OF_CONSUMERS = ("classic", "consumer")


def list_groups(
    *patterns: str,
    kind: Kinds = None,
    state: Annotated[
        list[str] | None,
        Parameter(name="--state", negative=(), help=f"Only these states: {', '.join(STATES)}."),
    ] = None,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> None:
    """Lists the groups of every coordinator: classic, consumer, share and streams.

    With -o kafka, the groups of one --type are listed as Kafka's tool for it lists them; by default classic and
    consumer groups, as kafka-consumer-groups does.

    Args:
        patterns: Only groups with these names, or that match such as 'billing-*'; quote it for the shell.
    """
    states = _states(state or ())
    with brokers.connected() as client:
        every = client_groups.group_rows(client)
    kinds = kind or (OF_CONSUMERS if output == "kafka" else ())
    rows = [
        row
        for row in every
        if (not kinds or row["type"].lower() in kinds)
        and (not states or row["state"] in states)
        and names.matches(row["group"], patterns)
    ]
    show_rows(
        rows,
        output,
        columns=LIST_COLUMNS,
        noun="group",
        kafka=lambda: (
            kafka_group_text.groups_in_states(rows)
            if states
            else kafka_group_text.groups_list(rows)
        ),
    )


def _states(given: Sequence[str]) -> set[str]:
    """Returns Kafka's names of the states, which may be written in any case. Raises UserError for an unknown one."""
    known = {state.lower(): state for state in STATES}
    wanted = [word.strip().lower() for text in given for word in text.split(",")]
    for word in wanted:
        if word not in known:
            raise UserError(
                f"{word!r} is not a state of a group",
                did_you_mean(word, known) or f"the states are {', '.join(STATES)}",
                "for example trimaran groups list --state empty",
                exit_code=Exit.USAGE,
            )
    return {known[word] for word in wanted}


def describe(
    *groups: str,
    members: Flag = False,
    state: Flag = False,
    topology: Flag = False,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> int:
    """Shows the committed offsets and the lag of groups: in records, and in seconds as the age of the next record.

    The committed offset of a share group is its start offset: all records before it are done. Its lag is the
    number of records from there on that are not done yet, as the coordinator counts them.

    Exit code 1 if one of several groups does not exist.

    Args:
        groups: Groups of any type: classic, consumer, share or streams; each may be a pattern, such as 'billing-*'.
            With several, JSON and YAML are a list.
        members: Show the members instead, and the partitions or tasks assigned to each.
        state: Show type, state, assignor, epochs and coordinator instead.
        topology: Show the subtopologies of a streams group instead, and the description of its topology.
    """
    names.ensure_named(groups, "group", "described")
    if members + state + topology > 1:
        raise UserError(
            "--members, --state and --topology cannot be combined",
            "each shows a different view of the group",
            "use one after the other, or -o json for everything",
            exit_code=Exit.USAGE,
        )
    with brokers.connected() as client:
        found, missing = names.each(
            expanded_groups(client, groups),
            lambda name: group_members.group_described(client, name),
        )
        # Kafka's tool shows no ages, so it needs no READ for the topics.
        ages = None if output == "kafka" else record_ages.RecordAges(client)
        data: Callable[[Mapping[str, Any]], Any]
        show: Callable[[Mapping[str, Any], Any, str], None]
        if topology:
            data, show = partial(topology_of, client), show_topology
        elif members:
            data, show = _members_of, _show_members
        elif state:
            data, show = _state_of, _show_state
        else:
            data, show = partial(_offsets_of, client, ages), _show_offsets
        told: list[Any] = [data(group) for group in found]
        if not show_data(_listed(found, told) if names.several(groups) else told[0], output):
            for number, of_group in enumerate(told):
                if number and output != "kafka":
                    put()
                show(found[number], of_group, output)
        _say_denied(ages)
        return names.end(missing)


def _listed(found: Sequence[Mapping[str, Any]], told: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns the data of several groups as one list; each row names its group."""
    return [
        {"group": group["group"], **row}
        for group, data in zip(found, told, strict=True)
        for row in (data if isinstance(data, list) else [data])
    ]


def expanded_groups(client: BlockingClient, words: Sequence[str]) -> list[str]:
    """Returns `names.expanded` of groups."""
    return names.expanded(
        words, lambda: [str(row["group"]) for row in client_groups.group_rows(client)]
    )


def lag(*groups: str, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Shows the lag of groups: records over all partitions, and seconds of the partition that is furthest behind.

    Without names, groups of a kind that the cluster does not serve are left out. Exit code 1 if one of several groups
    does not exist.

    Args:
        groups: Groups to show; each may be a pattern, such as 'billing-*'; by default all.
    """
    with brokers.connected() as client:
        listed = {str(row["group"]): row for row in client_groups.group_rows(client)}
        found, missing = names.each(
            names.expanded(groups, lambda: listed) if groups else listed,
            lambda name: _row_of(listed, name),
        )
        rows: list[dict[str, Any]] = []
        not_served = []
        ages = record_ages.RecordAges(client)
        with progress("asking for offsets", len(found), unit="group") as bar:
            for number, row in enumerate(found, 1):
                lags = client_groups.total_lags(client, row, ages, all_ages=True)
                if lags is None and row["group"] in groups:
                    group_members.ensure_served(client, row["group"])
                if lags is None:
                    not_served.append(str(row["group"]))
                else:
                    kept = {name: lags[name] for name in LAG_COLUMNS if name in lags}
                    rows.append({**row, **kept})
                bar.at(number)
        show_rows(rows, output, columns=LAG_COLUMNS, noun="group")
        if not_served:
            say(f"left out, since the cluster does not serve their type: {', '.join(not_served)}")
        if hidden := [str(row["group"]) for row in rows if row["lag"] is None]:
            say(f"lag of {', '.join(hidden)} is not known: no DESCRIBE for topics of the members")
        _say_denied(ages)
        return names.end(missing)


def _row_of(rows: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    if name not in rows:
        raise refused.no_group(name)
    return rows[name]


def _say_denied(ages: record_ages.RecordAges | None) -> None:
    """Says why seconds are missing, if topics may not be read."""
    if ages is not None and ages.denied:
        topics = ", ".join(sorted(ages.denied))
        say(f"LAG-SECONDS is not known for {topics}: it needs READ for the topic")


def _offsets_of(
    client: BlockingClient, ages: record_ages.RecordAges | None, found: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the group with its committed or assigned partitions in order, each with its member; without `ages` no
    records are read.
    """
    owners = group_members.owners_of(found)
    told = (
        client_groups.offset_rows(client, found)
        if ages is None
        else client_groups.lag_rows(client, found, ages)
    )
    rows = {identity.TopicPartition(row["topic"], row["partition"]): row for row in told}
    for row in group_offsets.lag_in_records(
        client, dict.fromkeys(owners.keys() - rows.keys(), identity.NO_OFFSET)
    ):
        # Nothing is committed: the lag depends on where the consumer would begin.
        rows[identity.TopicPartition(row["topic"], row["partition"])] = {
            **row,
            "committed": None,
            "lag": None,
            "lag_seconds": None,
        }
    offsets = [
        {
            **rows[key],
            **{name: owners.get(key, {}).get(name) for name in ("member", "client", "host")},
        }
        for key in sorted(rows)
    ]
    return {**found, "offsets": offsets}


def _members_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(found["members"])


def _show_offsets(found: Mapping[str, Any], data: Mapping[str, Any], output: str) -> None:
    view, offsets = group_views.VIEWS[found["type"]], data["offsets"]
    if output == "kafka":
        view.say_state(found, "offsets")
        if found["members"] or found["type"] != "streams":
            put(view.kafka_offsets(found, offsets))
        return
    behind = counted(client_groups.total_lag(offsets), "record")
    put(
        f"{found['group']}: {found['state']}, {counted(len(found['members']), 'member')}, {behind} behind"
    )
    show_folded(offsets, output, columns=view.offset_columns, noun="partition")


def _show_members(found: Mapping[str, Any], members: Sequence[Any], output: str) -> None:
    view = group_views.VIEWS[found["type"]]
    if output == "kafka":
        view.say_state(found, "members")
        if members or found["type"] in OF_CONSUMERS:
            put(view.kafka_members(found))
        return
    rows = [
        {
            **{name: _flat(value) for name, value in member.items()},
            "partitions": sum(map(len, member["assignment"].values())),
        }
        for member in members
    ]
    show_folded(rows, output, columns=view.member_columns, noun="member")


def _flat(value: Any) -> Any:
    """Returns a cell of a table; partitions or tasks become text: `orders(0,1)`."""
    if not isinstance(value, dict):
        return value
    return [
        f"{name}({','.join(map(str, sorted(told)))})"
        if isinstance(told, list)
        else f"{name}={told}"
        for name, told in sorted(value.items())
    ]


def _state_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    row = {name: value for name, value in found.items() if name != "subtopologies"}
    return [{**row, "members": len(found["members"])}]


def _show_state(found: Mapping[str, Any], rows: Sequence[dict[str, Any]], output: str) -> None:
    view = group_views.VIEWS[found["type"]]
    if output == "kafka":
        view.say_state(found, "state")
        put(view.kafka_state(found))
        return
    show_rows(rows, output, columns=view.state_columns)
