"""`records delete`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import say
from trimaran.client import positions, record_deletion, topic_partitions
from trimaran.node.text.wording import counted
from trimaran.wire import identity


def delete_records(
    topic: str,
    *,
    before: str,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Deletes the oldest records of a topic, up to a position in each partition.

    Args:
        topic: The topic.
        before: The first record that stays: an offset, end (all are deleted), -10 (the last ten stay),
            @2026-11-23T12:00, @-7d, or @MILLISECONDS.
        partition: Only this partition; by default all. May be repeated.
    """
    position = positions.parse_position(before)
    with brokers.connected() as client:
        available = len(topic_partitions.leaders_of(client, topic))
        wanted = sorted(set(partition)) if partition else list(range(available))
        topic_partitions.ensure_partitions_exist(topic, wanted, available)
        deletions = [
            record_deletion.deletion_in(client, identity.TopicPartition(topic, index), position)
            for index in wanted
        ]
        for deletion in deletions:
            name = f"{topic}-{deletion.partition.partition}"
            if not deletion.size:
                say(f"{name}: nothing to delete, it begins at offset {deletion.start}")
                continue
            what = f"{counted(deletion.size, 'offset')} from {deletion.start} on"
            if dry_run:
                say(f"{name}: would delete {what}")
                continue
            first = record_deletion.delete_records(
                client, deletion, timeout_ms=round(brokers.timeout * 1000)
            )
            say(f"{name}: deleted {what}; it begins at offset {first}")
