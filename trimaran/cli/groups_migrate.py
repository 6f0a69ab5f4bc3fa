"""`groups migrate-offsets`: copies the offsets of a group of old consumers from ZooKeeper to Kafka.

Offsets in Kafka that are already higher are kept, for example after a time of committing to both (`dual.commit.enabled`
of Kafka 0.8.2). ZooKeeper is only read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, Zookeeper
from trimaran.cli.groups_change import AsEver, Execute, ensure_one_of
from trimaran.cli.output import Format, say, show_rows
from trimaran.cli.progress import progress
from trimaran.cli.zk import READING, zookeeper_to_ask
from trimaran.client import changes, group_offsets, partitions
from trimaran.client import zookeeper as client_zookeeper
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted
from trimaran.wire import errors
from trimaran.wire.identity import NO_OFFSET, Offset, TopicPartition
from trimaran.zkcompat.commands import tree_views
from trimaran.zkcompat.legacy import consumer_offsets

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient


COMMIT = "commit"
SAME = "same"
KEPT = "kept, Kafka's is higher"
UNREADABLE = "left out, no number"
UNKNOWN = "left out, no such partition"
COLUMNS = ("topic", "partition", "zookeeper", "kafka", "action")

Overwrite = Annotated[
    bool,
    Parameter(
        name="--overwrite", negative="", help="Also replace offsets in Kafka that are higher."
    ),
]
WhileRunning = Annotated[
    bool,
    Parameter(
        name="--while-running",
        negative="",
        help="Also while old consumers of the group run; what they commit later is not copied.",
    ),
]


@dataclass(frozen=True, slots=True)
class InZooKeeper:
    """The contents of `/consumers/GROUP`: offsets, None for an invalid number, and the running consumers."""

    offsets: Mapping[TopicPartition, Offset | None]
    consumers: Sequence[str]


def migrate_offsets(
    group: str,
    *,
    execute: Execute = False,
    dry_run: AsEver = False,
    overwrite: Overwrite = False,
    while_running: WhileRunning = False,
    zookeeper: Zookeeper = None,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Shows which offsets of a group in ZooKeeper would be committed to Kafka, and with --execute commits them.

    Args:
        group: The group.
    """
    ensure_one_of(execute=execute, dry_run=dry_run)
    found = _in_zookeeper(group, zookeeper, brokers)
    with brokers.connected() as client:
        rows = plan(
            found.offsets,
            group_offsets.committed_offsets(client, group),
            _existing(client, found),
            overwrite=overwrite,
        )
        show_rows(rows, output, columns=list(COLUMNS))
        wanted = {
            TopicPartition(r["topic"], r["partition"]): r["zookeeper"]
            for r in rows
            if r["action"] == COMMIT
        }
        if not execute:
            say(
                f"{counted(len(wanted), 'offset')} to commit; nothing was changed, --execute does it"
            )
            return Exit.OK
        if found.consumers and not while_running:
            raise _still_running(group, found.consumers)
        changes.commit_offsets(client, group, wanted)
    say(f"{counted(len(wanted), 'offset')} committed to Kafka")
    return Exit.OK


def plan(
    zookeeper: Mapping[TopicPartition, Offset | None],
    kafka: Mapping[TopicPartition, Offset],
    existing: Collection[TopicPartition],
    *,
    overwrite: bool,
) -> list[dict[str, Any]]:
    """Returns a row for each offset in ZooKeeper, with the action for it."""

    def action(key: TopicPartition, offset: Offset | None) -> str:
        committed = kafka.get(key, NO_OFFSET)
        if offset is None or offset < 0:
            return UNREADABLE
        if key not in existing:
            return UNKNOWN
        if offset == committed:
            return SAME
        return KEPT if offset < committed and not overwrite else COMMIT

    return [
        {
            "topic": key[0],
            "partition": key[1],
            "zookeeper": offset,
            "kafka": kafka.get(key),
            "action": action(key, offset),
        }
        for key, offset in sorted(zookeeper.items())
    ]


def _in_zookeeper(group: str, given: str | None, brokers: Brokers) -> InZooKeeper:
    try:
        consumer_offsets.check_group(group)
    except errors.KafkaError as error:
        raise UserError(
            f"{group!r} cannot be a group in ZooKeeper",
            error.message,
            "trimaran zk tree /consumers shows the groups there",
            exit_code=Exit.USAGE,
        ) from error
    root = f"/consumers/{group}"
    with client_zookeeper.explained():
        connect = zookeeper_to_ask(given, brokers.data)
        with progress(READING):
            entries = tree_views.tree(connect, root)
    offsets: dict[TopicPartition, Offset | None] = {}
    consumers = []
    for entry in entries:
        names = entry.path.removeprefix(f"{root}/").split("/")
        if names[0] == "offsets" and len(names) == 3 and names[2].isdecimal():
            offsets[TopicPartition(names[1], int(names[2]))] = consumer_offsets.decode_offset(
                (entry.text or "").encode()
            )
        elif names[0] == "ids" and len(names) == 2:
            consumers.append(names[1])
    if not offsets:
        raise UserError(
            f"{group} has no offsets in ZooKeeper",
            f"nothing is below {root}/offsets",
            "trimaran zk tree /consumers shows the groups there",
            exit_code=Exit.NO,
        )
    return InZooKeeper(offsets, consumers)


def _existing(client: BlockingClient, found: InZooKeeper) -> set[TopicPartition]:
    names = sorted({topic for topic, _ in found.offsets})
    return {
        TopicPartition(topic.name or "", partition.partition_index)
        for topic in partitions.topics_of(client, names)
        if not topic.error_code
        for partition in topic.partitions
    }


def _still_running(group: str, consumers: Sequence[str]) -> UserError:
    return UserError(
        f"consumers of {group} are running",
        f"{', '.join(consumers[:3])}{' and others' if len(consumers) > 3 else ''} in /consumers/{group}/ids",
        "stop them, or copy what they have committed so far with --while-running",
        exit_code=Exit.NO,
    )
