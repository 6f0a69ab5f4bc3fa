"""`groups reset-offsets|delete|delete-offsets`: changes committed offsets while the group has no members."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import changes, group_members, positions, topic_partitions
from trimaran.client import groups as client_groups
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors, identity
from trimaran.wire.client import destinations, response_checks
from trimaran.wire.messages import delete_groups, offset_delete

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
# kafka-consumer-groups has both, too.
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
    execute: Execute = False,
    dry_run: AsEver = False,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Shows where a group would continue consuming, and with --execute commits it. The group must have no members.

    Without --topic, all offsets that the group has committed are reset.

    Args:
        group: The group.
        to: The new offset: start, end, an offset, -10 (ten before the end), @2026-11-23T12:00, @-15m, or @MILLISECONDS.
    """
    ensure_one_of(execute=execute, dry_run=dry_run)
    position = positions.parse_position(to)
    with brokers.connected() as client:
        before = client_groups.committed_offsets(client, group)
        wanted = _wanted(client, topic) if topic else sorted(before)
        if not wanted:
            raise _nothing(group)
        after = {
            partition: changes.within_log(client, partition, position.offset_in(client, partition))
            for partition in wanted
        }
        rows = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": before.get(partition),
                "new": after[partition],
            }
            for partition in wanted
        ]
        show_rows(rows, output, columns=["topic", "partition", "committed", "new"])
        changed = {
            partition: offset
            for partition, offset in after.items()
            if before.get(partition) != offset
        }
        if not execute:
            say(
                f"{counted(len(changed), 'offset')} would change; nothing was changed, --execute does it"
            )
            return Exit.OK
        changes.commit_offsets(client, group, changed)
    say(f"{counted(len(changed), 'offset')} committed")
    return Exit.OK


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


def _nothing(group: str) -> UserError:
    return UserError(
        f"group {group} has committed no offsets",
        "by default offsets are reset where the group has committed some",
        "name topics with --topic to commit offsets for them",
        exit_code=Exit.NO,
    )


def delete(
    *groups: str,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> int:
    """Deletes groups with their committed offsets. A group must have no members.

    Args:
        groups: The groups to delete.
    """
    if not groups:
        raise UserError(
            "no group was named",
            "groups are deleted by name",
            "name one or more; trimaran groups list shows all groups",
            exit_code=Exit.USAGE,
        )
    with brokers.connected() as client:
        for group in groups:
            if dry_run:
                _tell_deletion(client, group)
                continue
            response = client.call(
                destinations.CoordinatorNode(group),
                delete_groups.DeleteGroupsRequest(groups_names=[group]),
            )
            code = response_checks.single_item(response.results, "group").error_code
            changes.check_idle(group, code)
            refused.check_group(group, code)
            say(f"deleted group {group}")
    return Exit.OK


def _tell_deletion(client: BlockingClient, group: str) -> None:
    """Refuses, as the coordinator would, a group that does not exist or has members."""
    found = group_members.group_described(client, group)
    changes.check_idle(
        group, errors.ErrorCode.NON_EMPTY_GROUP if found["members"] else errors.ErrorCode.NONE
    )
    offsets = client_groups.offset_rows(client, group, found["type"])
    say(f"would delete group {group}: {counted(len(offsets), 'offset')}; nothing was changed")


def delete_offsets(
    group: str, *, topic: Topics = None, dry_run: DryRun = False, brokers: Brokers = BROKERS
) -> int:
    """Deletes committed offsets of topics that no member of the group consumes.

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
        wanted = _wanted(client, topic)
        if dry_run:
            group_members.group_described(client, group)
            count = len(set(wanted) & client_groups.committed_offsets(client, group).keys())
            say(f"would delete {counted(count, 'offset')}; nothing was changed")
            return Exit.OK
        by_topic: dict[str, list[offset_delete.OffsetDeleteRequestPartition]] = {}
        for name, index in wanted:
            by_topic.setdefault(name, []).append(
                offset_delete.OffsetDeleteRequestPartition(partition_index=index)
            )
        request = offset_delete.OffsetDeleteRequest(
            group_id=group,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(name=t, partitions=p)
                for t, p in by_topic.items()
            ],
        )
        response = client.call(destinations.CoordinatorNode(group), request)
        refused.check_group(group, response.error_code)
        deleted = [partition for found in response.topics for partition in _deleted(found)]
    say(f"deleted {counted(len(deleted), 'offset')}")
    return Exit.OK


def _deleted(topic: Any) -> list[int]:
    for partition in topic.partitions:
        refused.check(partition.error_code, f"{topic.name}-{partition.partition_index}")
    return [partition.partition_index for partition in topic.partitions]
