"""`groups reset-offsets|delete|delete-offsets`: changes committed offsets while the group has no members."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.group_views import Kind
from trimaran.cli.groups import expanded_groups
from trimaran.cli.internal_topics import (
    InternalTopics,
    delete_topics,
    ensure_inputs,
    internal_topics_of,
)
from trimaran.cli.names import ensure_named
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import changes, group_kinds, group_members, positions, rights, topic_partitions
from trimaran.client import groups as client_groups
from trimaran.errors import refused as refusals
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors, identity
from trimaran.wire.security.acls import Operation

if TYPE_CHECKING:
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


def reset_offsets(
    group: str,
    *,
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
    """Shows where a group would continue consuming, and with --execute commits it. The group must have no members.

    Without --topic, all offsets that the group has committed are reset; for a streams group those of its input topics,
    for a share group the start offsets of all its partitions.

    Args:
        group: The group.
        to: The new offset: start, end, an offset, -10 (ten before the end), @2026-11-23T12:00, @-15m, or @MILLISECONDS.
    """
    ensure_one_of(execute=execute, dry_run=dry_run)
    position = positions.parse_position(to)
    with brokers.connected() as client:
        found = group_members.described_or_none(client, group, with_operations=not execute)
        _ensure_of_type(group, found, kind)
        of_kind = group_kinds.kind_named(kind or "classic" if found is None else found["type"])
        internal = internal_topics_of(client, found, wanted=delete_internal_topics)
        before = of_kind.positions(client, found or {"group": group})
        wanted = _wanted(client, topic) if topic else sorted(before)
        if found is None:
            group_members.ensure_served(client, group)
        if not wanted:
            raise _nothing(group) if found else _missing(group)
        ensure_inputs(found, wanted)
        after = {
            partition: changes.within_log(client, partition, position.offset_in(client, partition))
            for partition in wanted
        }
        show_rows(
            _changes(before, after), output, columns=["topic", "partition", "committed", "new"]
        )
        changed = {
            partition: offset
            for partition, offset in after.items()
            if of_kind.has_progress_beyond or before.get(partition) != offset
        }
        if not execute:
            if found is not None and changed:
                rights.ensure_may_change_group(found, Operation.READ)
                changes.ensure_idle(found)
            _ensure_may_read(client, changed)
            also = f", and the topics {', '.join(internal)} would be deleted" if internal else ""
            say(
                f"{counted(len(changed), 'offset')} would change{also}; nothing was changed, --execute does it"
            )
            return Exit.OK
        of_kind.set_positions(client, group, changed)
        say(f"{counted(len(changed), 'offset')} committed")
        delete_topics(client, internal)
    return Exit.OK


def _ensure_of_type(group: str, found: Mapping[str, Any] | None, kind: str | None) -> None:
    """Raises UserError if the group is of another type than the given one."""
    if found is not None and kind not in (None, found["type"]):
        raise UserError(
            f"{group} is not a {kind} group",
            f"it is a {found['type']} group",
            "leave --type out: it is for groups that do not exist yet",
            exit_code=Exit.REFUSED,
        )


def _changes(
    before: Mapping[identity.TopicPartition, identity.Offset],
    after: Mapping[identity.TopicPartition, identity.Offset],
) -> list[dict[str, Any]]:
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": _known(before.get(partition)),
            "new": offset,
        }
        for partition, offset in after.items()
    ]


def _known(offset: identity.Offset | None) -> identity.Offset | None:
    """Returns None for `NO_OFFSET`, the position in a partition of which a share group has read nothing yet."""
    return None if offset is None or offset < 0 else offset


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
    return UserError(
        f"there is no group {group}",
        "no coordinator knows it, so it has no offsets to reset",
        "trimaran groups list shows all groups; --topic sets offsets of a new one",
        exit_code=Exit.REFUSED,
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
    ensure_named(groups, "group", "deleted")
    failed: dict[str, UserError] = {}
    reasons = []
    with brokers.connected() as client:
        names = expanded_groups(client, groups)
        for group in names:
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
        if len(names) == 1:
            raise failed[names[0]]
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
    group: str, *, topic: Topics = None, dry_run: DryRun = False, brokers: Brokers = BROKERS
) -> int:
    """Deletes committed offsets of topics that no member of the group consumes.

    A share group must have no members, and loses its position in whole topics: if it subscribes to one again, it begins
    where its config share.auto.offset.reset says.

    Args:
        group: The group.
    """
    if not topic:
        raise UserError(
            "no topic was named",
            "offsets are deleted topic by topic",
            "name one with --topic, or delete the whole group: trimaran groups delete",
            exit_code=Exit.USAGE,
        )
    with brokers.connected() as client:
        found = group_members.group_described(client, group, with_operations=dry_run)
        kind = group_kinds.kind_named(found["type"])
        wanted = _wanted(client, topic)
        if kind.has_positions_of_topics:
            _ensure_whole_topics(client, group, wanted)
        if dry_run:
            rights.ensure_may_change_group(found, Operation.DELETE)
            _ensure_may_read(client, wanted)
            kind.ensure_deletable(found, {topic for topic, _ in wanted})
            count = len(set(wanted) & kind.positions(client, found).keys())
            say(f"would delete {counted(count, 'offset')}; nothing was changed")
            return Exit.OK
        deleted = kind.delete_positions(client, group, wanted)
    say(f"deleted {counted(deleted, 'offset')}")
    return Exit.OK


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
