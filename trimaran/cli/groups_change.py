"""`groups reset-offsets|delete|delete-offsets`: changes committed offsets while the group has no members."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from trimaran.cli import names
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.group_views import Kind
from trimaran.cli.groups import expanded_groups
from trimaran.cli.internal_topics import (
    InternalTopics,
    delete_topics,
    ensure_inputs,
    internal_topics_of,
)
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import (
    changes,
    group_kinds,
    group_members,
    group_resets,
    positions,
    rights,
    topic_partitions,
)
from trimaran.client import groups as client_groups
from trimaran.errors import refused as refusals
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors, identity
from trimaran.wire.security.acls import Operation

if TYPE_CHECKING:
    from trimaran.client.group_resets import OffsetReset
    from trimaran.wire.blocking import BlockingClient

Topics = Annotated[
    list[str] | None,
    Parameter(
        name=["-t", "--topic"],
        negative=(),
        help="TOPIC, or TOPIC:PARTITION,PARTITION. May be repeated.",
    ),
]
Execute = Annotated[
    bool,
    Parameter(
        name="--execute", negative="", help="Make the changes; without it they are only shown."
    ),
]
# kafka-consumer-groups has both --execute and --dry-run, too.
AsEver = Annotated[
    bool,
    Parameter(name="--dry-run", negative="", help="Only show the changes, as without --execute."),
]


def ensure_one_of(*, execute: bool, dry_run: bool) -> None:
    """Raises UserError."""
    if execute and dry_run:
        raise UserError(
            "--execute and --dry-run cannot be combined",
            "one changes offsets, the other only shows what would change",
            "give one of them; without either nothing is changed",
            exit_code=Exit.USAGE,
        )


class Reset(NamedTuple):
    """The change of a group's offsets. `found` is None for a group that does not exist yet; `internal` are the topics
    to delete.
    """

    group: str
    found: Mapping[str, Any] | None
    kind: str
    internal: Sequence[str]
    offsets: OffsetReset


def reset_offsets(
    *groups: str,
    to: str,
    topic: Topics = None,
    kind: Annotated[
        Kind | None,
        Parameter(
            name="--type",
            help="The type of the group; classic by default if it does not exist yet.",
            show_default=False,
        ),
    ] = None,
    delete_internal_topics: InternalTopics = False,
    execute: Execute = False,
    dry_run: AsEver = False,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Shows where groups would continue consuming, and with --execute commits it. The groups must have no members.

    Without --topic, all offsets that a group has committed are reset; for a streams group those of its input topics,
    for a share group the start offsets of all its partitions. If one of several groups does not exist, none is changed.

    Args:
        groups: The groups; each may be a pattern, such as 'billing-*'. With several, each row names its group.
        to: The new offset: start, end, an offset, -10 (ten before the end), @2026-11-23T12:00, @-15m, or @MILLISECONDS.
    """
    ensure_one_of(execute=execute, dry_run=dry_run)
    names.ensure_named(groups, "group", "reset")
    position = positions.parse_position(to)
    with brokers.connected() as client:
        resets, missing = names.each(
            expanded_groups(client, groups),
            lambda group: _reset(
                client,
                group,
                position,
                topic,
                kind,
                with_topics=delete_internal_topics,
                execute=execute,
            ),
        )
        if missing is not None:
            raise missing
        of_several = ["group"] if names.several(groups) else []
        rows = [
            {**dict.fromkeys(of_several, reset.group), **row}
            for reset in resets
            for row in reset.offsets.rows()
        ]
        show_rows(rows, output, columns=[*of_several, "topic", "partition", "committed", "new"])
        for reset in resets:
            about = f"{reset.group}: " if of_several else ""
            if execute:
                _carry_out(client, reset, about)
            else:
                _tell_reset(client, reset, about)
    return Exit.OK


def _reset(
    client: BlockingClient,
    group: str,
    position: positions.Position,
    topic: Topics,
    kind: str | None,
    *,
    with_topics: bool,
    execute: bool,
) -> Reset:
    """Returns the change of a group's offsets. Raises UserError, KafkaError."""
    found = group_members.described_or_none(client, group, with_operations=not execute)
    _ensure_of_type(group, found, kind)
    of_kind = group_kinds.kind_named(kind or "classic" if found is None else found["type"])
    internal = internal_topics_of(client, found, wanted=with_topics)
    before = of_kind.positions(client, found or {"group": group})
    wanted = _wanted(client, topic) if topic else sorted(before)
    if found is None:
        group_members.ensure_served(client, group)
    if not wanted or (found is None and refusals.is_pattern(group)):
        raise _nothing(group) if found else _missing(group)
    ensure_inputs(found, wanted)
    offsets = group_resets.planned_reset(client, of_kind, before, wanted, position)
    return Reset(group, found, of_kind.name, internal, offsets)


def _tell_reset(client: BlockingClient, reset: Reset, about: str) -> None:
    """Prints the number of changes. Raises UserError, KafkaError if they would be refused."""
    if reset.found is not None and reset.offsets.changed:
        rights.ensure_may_change_group(reset.found, Operation.READ)
        changes.ensure_idle(reset.found)
    _ensure_may_read(client, reset.offsets.changed)
    internal = ", ".join(reset.internal)
    also = f", and the topics {internal} would be deleted" if internal else ""
    changed = counted(len(reset.offsets.changed), "offset")
    say(f"{about}{changed} would change{also}; nothing was changed, --execute does it")


def _carry_out(client: BlockingClient, reset: Reset, about: str) -> None:
    group_kinds.kind_named(reset.kind).set_positions(client, reset.group, reset.offsets.changed)
    say(f"{about}{counted(len(reset.offsets.changed), 'offset')} committed")
    delete_topics(client, reset.internal)


def _ensure_of_type(group: str, found: Mapping[str, Any] | None, kind: str | None) -> None:
    """Raises UserError if the group is of another type than the given one."""
    if found is not None and kind not in (None, found["type"]):
        raise UserError(
            f"{group} is not a {kind} group",
            f"it is a {found['type']} group",
            "leave --type out: it is for groups that do not exist yet",
            exit_code=Exit.REFUSED,
        )


def _wanted(client: BlockingClient, topics: Collection[str]) -> list[identity.TopicPartition]:
    found = []
    for text in topics:
        topic, colon, indexes = text.rpartition(":")
        if not colon or not all(part.isdecimal() for part in indexes.split(",")):
            found += [
                identity.TopicPartition(text, index)
                for index in range(len(topic_partitions.leaders_of(client, text)))
            ]
            continue
        count = len(topic_partitions.leaders_of(client, topic))
        for index in map(int, indexes.split(",")):
            if index >= count:
                raise UserError(
                    f"topic {topic} has no partition {index}",
                    f"it has {counted(count, 'partition')}",
                    f"name one below {count}",
                    exit_code=Exit.USAGE,
                )
            found.append(identity.TopicPartition(topic, index))
    return sorted(set(found))


def _missing(group: str) -> UserError:
    if refusals.is_pattern(group):
        return refusals.no_group(group)
    return refusals.UnknownName(
        "group",
        group,
        why="no coordinator knows it, so it has no offsets to reset",
        fix="trimaran groups list shows all groups; --topic sets offsets of a new one",
    )


def _nothing(group: str) -> UserError:
    return UserError(
        f"group {group} has committed no offsets",
        "by default offsets are reset where the group has committed some; without DESCRIBE for a topic they are hidden",
        "name topics with --topic to commit offsets for them",
        exit_code=Exit.NO,
    )


def delete(
    *groups: str,
    delete_internal_topics: InternalTopics = False,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> int:
    """Deletes groups of any type with their offsets. A group must have no members.

    Args:
        groups: The groups to delete; each may be a pattern, such as 'billing-*'.
    """
    names.ensure_named(groups, "group", "deleted")
    failed: dict[str, UserError] = {}
    reasons = []
    with brokers.connected() as client:
        wanted = expanded_groups(client, groups)
        for group in wanted:
            try:
                _delete(client, group, with_topics=delete_internal_topics, dry_run=dry_run)
            except UserError as error:
                if error.exit_code is Exit.USAGE:
                    raise
                failed[group] = error
                reasons.append(error.what)
            except errors.KafkaError as error:
                failed[group] = refusals.refused(error)
                reasons.append(failed[group].why)
    if failed:
        if len(wanted) == 1:
            raise failed[wanted[0]]
        raise UserError(
            f"refused for {', '.join(failed)}",
            "; ".join(reasons),
            next(iter(failed.values())).fix,
            exit_code=Exit.REFUSED,
        )
    return Exit.OK


def _delete(client: BlockingClient, group: str, *, with_topics: bool, dry_run: bool) -> None:
    """Deletes a group, or prints the changes.

    Raises:
        UserError, KafkaError: the cluster refused.
    """
    internal: list[str] = []
    if dry_run or with_topics:
        found = group_members.group_described(client, group, with_operations=dry_run)
        internal = internal_topics_of(client, found, wanted=with_topics)
        if dry_run:
            _tell_deletion(client, found, internal)
            return
    changes.delete_group(client, group)
    say(f"deleted group {group}")
    delete_topics(client, internal)


def _ensure_may_read(client: BlockingClient, wanted: Collection[identity.TopicPartition]) -> None:
    """Raises KafkaError, as the coordinator would, for a topic without READ."""
    rights.ensure_may_change_topics(client, {topic for topic, _ in wanted}, Operation.READ)


def _tell_deletion(
    client: BlockingClient, found: Mapping[str, Any], internal: Sequence[str]
) -> None:
    """Prints the changes of a deletion. Raises UserError for a group that has members."""
    group = str(found["group"])
    rights.ensure_may_change_group(found, Operation.DELETE)
    changes.ensure_idle(found)
    offsets = client_groups.offset_rows(client, found)
    also = f", and the topics {', '.join(internal)}" if internal else ""
    say(f"would delete group {group}: {counted(len(offsets), 'offset')}{also}; nothing was changed")


def delete_offsets(
    *groups: str, topic: Topics = None, dry_run: DryRun = False, brokers: Brokers = BROKERS
) -> int:
    """Deletes committed offsets of topics that no member of the groups consumes.

    A share group must have no members, and loses its position in whole topics: if it subscribes to one again, it begins
    where its config share.auto.offset.reset says. If one of several groups does not exist, none is changed.

    Args:
        groups: The groups; each may be a pattern, such as 'billing-*'.
    """
    names.ensure_named(groups, "group", "changed")
    if not topic:
        raise UserError(
            "no topic was named",
            "offsets are deleted topic by topic",
            "name one with --topic, or delete the whole group: trimaran groups delete",
            exit_code=Exit.USAGE,
        )
    with brokers.connected() as client:
        described, missing = names.each(
            expanded_groups(client, groups),
            lambda group: group_members.group_described(client, group, with_operations=dry_run),
        )
        if missing is not None:
            raise missing
        wanted = _wanted(client, topic)
        for found in described:
            about = f"{found['group']}: " if names.several(groups) else ""
            _delete_offsets(client, found, wanted, about, dry_run=dry_run)
    return Exit.OK


def _delete_offsets(
    client: BlockingClient,
    found: Mapping[str, Any],
    wanted: Sequence[identity.TopicPartition],
    about: str,
    *,
    dry_run: bool,
) -> None:
    """Deletes offsets of a group, or prints how many it would delete. Raises UserError, KafkaError."""
    group, kind = str(found["group"]), group_kinds.kind_named(found["type"])
    if kind.has_positions_of_topics:
        _ensure_whole_topics(client, group, wanted)
    if not dry_run:
        deleted = kind.delete_positions(client, group, wanted)
        say(f"{about}deleted {counted(deleted, 'offset')}")
        return
    rights.ensure_may_change_group(found, Operation.DELETE)
    _ensure_may_read(client, wanted)
    kind.ensure_deletable(found, {topic for topic, _ in wanted})
    count = len(set(wanted) & kind.positions(client, found).keys())
    say(f"{about}would delete {counted(count, 'offset')}; nothing was changed")


def _ensure_whole_topics(
    client: BlockingClient, group: str, wanted: Sequence[identity.TopicPartition]
) -> None:
    """Raises UserError if only some partitions of a topic are wanted."""
    for name in sorted({topic for topic, _ in wanted}):
        if sum(topic == name for topic, _ in wanted) < len(
            topic_partitions.leaders_of(client, name)
        ):
            raise UserError(
                f"only some partitions of {name} were named",
                f"{group} is a share group, and its offsets are deleted for whole topics",
                f"name the topic: trimaran groups delete-offsets {group} -t {name}",
                exit_code=Exit.USAGE,
            )
