"""`partitions list|elect-leader`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli import names
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import changes, partitions
from trimaran.errors.user_error import Exit
from trimaran.node.text.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimaran.wire.blocking import BlockingClient

COLUMNS = ("topic", "partition", "leader", "replicas", "isr")


def list_partitions(
    *,
    topic: Annotated[list[str] | None, Parameter(name=["-t", "--topic"])] = None,
    under_replicated: bool = False,
    offline: bool = False,
    at_min_isr: bool = False,
    under_min_isr: bool = False,
    not_preferred: bool = False,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Lists all partitions, or only the partitions that match one of the options. Exit code 1 if an option matches any
    partition.

    Args:
        topic: Only partitions of this topic, which may be a pattern, such as 'orders-*'. May be repeated.
        under_replicated: Only partitions with a replica that is not in the ISR.
        offline: Only partitions without a leader.
        at_min_isr: Only partitions with exactly min.insync.replicas replicas in the ISR.
        under_min_isr: Only partitions with fewer than min.insync.replicas; they take no records with acks=all.
        not_preferred: Only partitions not led by their preferred (first) replica.
    """
    tests = (
        (under_replicated, partitions.is_under_replicated),
        (offline, partitions.is_offline),
        (at_min_isr, partitions.is_at_min_isr),
        (under_min_isr, partitions.is_under_min_isr),
        (not_preferred, partitions.is_not_preferred),
    )
    wanted = [test for given, test in tests if given]
    with brokers.connected() as client:
        topics, missing = names.topics_named(client, topic)
        rows = partitions.partitions_of(client, topics, wanted)
        show_rows(rows, output, columns=COLUMNS)
        return names.end(missing, Exit.NO if wanted and rows else Exit.OK)


def elect_leader(
    topic: str | None = None,
    partition: Annotated[list[int] | None, Parameter(name=["-p", "--partition"])] = None,
    *,
    unclean: bool = False,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> int:
    """Elects the preferred leaders of partitions, of one topic or of all.

    Args:
        topic: The topic; by default all topics.
        partition: Only this partition of the topic. May be repeated.
        unclean: Without a leader, elect any live replica; records that it does not have are lost.
    """
    asked = None
    with brokers.connected() as client:
        if topic is not None:
            found = partitions.topic_of(client, topic)
            asked = {topic: partition or sorted(one.partition_index for one in found.partitions)}
        if dry_run:
            return _tell_elections(client, asked, unclean=unclean)
        told = changes.elect_leaders(client, asked, unclean=unclean)
    for (name, index), failure in told.items():
        say(f"{name}-{index}: {failure or 'elected'}")
    return Exit.NO if any(told.values()) else Exit.OK


def _tell_elections(
    client: BlockingClient, asked: Mapping[str, Sequence[int]] | None, *, unclean: bool
) -> int:
    """Returns the partitions that need an election: they have no leader, or are not led by their preferred replica."""
    wanted = partitions.is_offline if unclean else partitions.is_not_preferred
    named = None if asked is None else {(name, index) for name in asked for index in asked[name]}
    topics = partitions.topics_of(client, None if asked is None else list(asked))
    rows = [
        row
        for row in partitions.partitions_of(client, topics, [wanted])
        if named is None or (row["topic"], row["partition"]) in named
    ]
    for row in rows:
        say(f"{row['topic']}-{row['partition']}: a leader would be elected")
    say(f"{counted(len(rows), 'election')} needed; nothing was changed")
    return Exit.OK
