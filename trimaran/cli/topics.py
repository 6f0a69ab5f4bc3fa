"""`topics list|create|alter|describe|delete`."""

from __future__ import annotations

import fnmatch
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli import kafka_text
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import KafkaFormat, put, say, show_data, show_fields, show_rows
from trimaran.client import changes
from trimaran.client import partitions as client_partitions
from trimaran.client import topics as client_topics
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_OF_BROKERS = -1  # num.partitions, default.replication.factor
PARTITION_COLUMNS = (
    "partition",
    "leader",
    "replicas",
    "isr",
    "elr",
    "offline",
    "begin",
    "end",
    "size",
)


def list_topics(
    pattern: str = "*",
    /,
    *,
    brokers: Brokers = BROKERS,
    internal: bool = False,
    under_replicated: bool = False,
    at_min_isr: bool = False,
    under_min_isr: bool = False,
    unavailable: bool = False,
    output: KafkaFormat = "table",
) -> int:
    """Lists topics with the numbers of their partitions and replicas.

    With an option for a problem of partitions, only topics with such partitions are listed; exit code 1 if there are
    any.

    Args:
        pattern: Only topics whose names match, such as 'orders-*'; quote it for the shell.
        internal: Also list internal topics, such as __consumer_offsets.
        under_replicated: Only topics with a partition that has a replica outside of the ISR.
        at_min_isr: Only topics with a partition with exactly min.insync.replicas replicas in the ISR.
        under_min_isr: Only topics with a partition with fewer than min.insync.replicas; it takes no records with
            acks=all.
        unavailable: Only topics with a partition without a leader.
    """
    with brokers.connected() as client:
        tests = (
            (under_replicated, client_partitions.is_under_replicated),
            (at_min_isr, client_partitions.is_at_min_isr),
            (under_min_isr, client_partitions.is_under_min_isr),
            (unavailable, client_partitions.is_offline),
        )
        wanted = [test for given, test in tests if given]
        topics = client_partitions.topics_of(client, None)
        found = client_partitions.partitions_of(client, topics, wanted) if wanted else []
    concerned = Counter(row["topic"] for row in found)
    rows = [
        {**row, **({"concerned": concerned[row["topic"]]} if wanted else {})}
        for row in client_topics.topic_rows(topics)
        if fnmatch.fnmatchcase(row["topic"], pattern)
        and (
            row["topic"] in concerned
            if wanted
            else internal or output == "kafka" or not row["internal"]
        )
    ]
    columns = ["topic", "partitions", "replicas", "internal", *(["concerned"] if wanted else [])]
    show_rows(
        rows, output, columns=columns, noun="topic", kafka=lambda: kafka_text.topics_list(rows)
    )
    return Exit.NO if wanted and rows else Exit.OK


def create(
    name: str,
    *,
    partitions: Annotated[
        int, Parameter(name=["-p", "--partitions"], show_default=False)
    ] = DEFAULT_OF_BROKERS,
    replication: Annotated[
        int, Parameter(name=["-r", "--replication-factor"], show_default=False)
    ] = DEFAULT_OF_BROKERS,
    config: Annotated[list[str] | None, Parameter(name="--config")] = None,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Creates a topic.

    Args:
        name: The topic.
        partitions: Number of partitions; by default num.partitions of the brokers.
        replication: Number of replicas of each partition; by default default.replication.factor of the brokers.
        config: KEY=VALUE, such as retention.ms=86400000. May be repeated.
    """
    configs = dict(map(_config, config or []))
    with brokers.connected() as client:
        result = changes.create_topic(
            client, name, partitions, replication, configs, validate_only=dry_run
        )
    say(
        f"{'would create' if dry_run else 'created'} {name}: {counted(result.num_partitions, 'partition')}, "
        f"{counted(result.replication_factor, 'replica')}"
    )


def _config(word: str) -> tuple[str, str]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise UserError(
            f"{word!r} is not a config",
            "a config is written KEY=VALUE",
            "for example --config retention.ms=86400000",
            exit_code=Exit.USAGE,
        )
    return key, value


def alter(
    name: str,
    *,
    partitions: Annotated[int, Parameter(name=["-p", "--partitions"])],
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Adds partitions to a topic. To change its configs, use trimaran configs set topic/NAME.

    New records may go to other partitions than older ones with the same key.

    Args:
        name: The topic.
        partitions: The new number of partitions.
    """
    with brokers.connected() as client:
        changes.create_partitions(client, name, partitions, validate_only=dry_run)
    say(f"{name} {'would have' if dry_run else 'has'} {counted(partitions, 'partition')}")


def delete(*names: str, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Deletes topics and all their records. If one of them does not exist, none is deleted.

    Args:
        names: The topics.
    """
    _ensure_named(names, "deleted")
    with brokers.connected() as client:
        found = {name: client_partitions.topic_of(client, name) for name in names}
        for name, topic in found.items():
            if dry_run:
                say(f"would delete {name}: {counted(len(topic.partitions), 'partition')}")
            else:
                changes.delete_topic(client, name)
                say(f"deleted {name}")


def _ensure_named(names: Sequence[str], what: str) -> None:
    if not names:
        raise UserError(
            "no topic was named",
            f"topics are {what} by name",
            "name one or more; trimaran topics list shows all topics",
            exit_code=Exit.USAGE,
        )


def describe(*names: str, brokers: Brokers = BROKERS, output: KafkaFormat = "table") -> int:
    """Shows id and configs of topics, and for each partition its leader, replicas, ISR, eligible leader replicas,
    offsets and size.

    Exit code 1 if a partition has no leader.

    Args:
        names: The topics. With several, JSON and YAML are a list.
    """
    _ensure_named(names, "described")
    with brokers.connected() as client:
        topics = [client_topics.topic_described(client, name) for name in names]
        if output == "kafka":
            for topic in topics:
                put(kafka_text.topic_description(topic, client_topics.moves_of(client, topic)))
    if output != "kafka" and not show_data(topics if len(topics) > 1 else topics[0], output):
        for number, topic in enumerate(topics):
            if number:
                put()
            _show_topic(topic, output)
    return Exit.NO if any(row["leader"] < 0 for t in topics for row in t["partitions"]) else Exit.OK


def _show_topic(topic: dict[str, Any], output: str) -> None:
    rows = topic["partitions"]
    sizes = [row["size"] for row in rows if row["size"] is not None]
    ends = [row["end"] - row["begin"] for row in rows if row["end"] is not None]
    configs = " ".join(f"{key}={value}" for key, value in topic["configs"].items())
    show_fields(
        {
            "topic": topic["topic"],
            "id": topic["topic_id"],
            "partitions": len(rows),
            "replication": topic["replication_factor"],
            "configs": configs or None,
            "offsets": sum(ends),
            "bytes": sum(sizes) if sizes else None,
        },
        output,
    )
    put()
    show_rows(rows, output, columns=PARTITION_COLUMNS, noun="partition")
