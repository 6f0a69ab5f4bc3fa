"""`topics list|create|alter|describe|delete`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from cyclopts import Parameter

from trimaran.cli import kafka_text, names
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import KafkaFormat, put, say, show_data, show_fields, show_rows
from trimaran.client import changes
from trimaran.client import partitions as client_partitions
from trimaran.client import topics as client_topics
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import counted

DEFAULT_OF_BROKERS = -1  # the brokers' num.partitions or default.replication.factor applies
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
    *patterns: str,
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
        patterns: Only topics with these names, or that match such as 'orders-*'; quote it for the shell.
        internal: Also list internal topics, such as __consumer_offsets; those that are named are listed anyway.
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
        if names.matches(row["topic"], patterns)
        and (
            row["topic"] in concerned
            if wanted
            else internal
            or output == "kafka"
            or not row["internal"]
            or names.names_internal(row["topic"], patterns)
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


def delete(*topics: str, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Deletes topics and all their records. If one of them does not exist, none is deleted.

    Args:
        topics: The topics; each may be a pattern, such as 'orders-*'.
    """
    names.ensure_named(topics, "topic", "deleted")
    with brokers.connected() as client:
        found, missing = names.each(
            names.expanded_topics(client, topics),
            lambda name: client_partitions.topic_of(client, name),
        )
        if missing is not None:
            raise missing
        for topic in found:
            if dry_run:
                say(f"would delete {topic.name}: {counted(len(topic.partitions), 'partition')}")
            else:
                changes.delete_topic(client, topic.name or "")
                say(f"deleted {topic.name}")


def describe(*topics: str, brokers: Brokers = BROKERS, output: KafkaFormat = "table") -> int:
    """Shows id and configs of topics, and for each partition its leader, replicas, ISR, eligible leader replicas,
    offsets and size.

    Exit code 1 if a partition has no leader, or one of several topics does not exist.

    Args:
        topics: The topics; each may be a pattern, such as 'orders-*'. With several, JSON and YAML are a list.
    """
    names.ensure_named(topics, "topic", "described")
    with brokers.connected() as client:
        found, missing = names.each(
            names.expanded_topics(client, topics),
            lambda name: client_topics.topic_described(client, name),
        )
        if output == "kafka":
            for topic in found:
                put(kafka_text.topic_description(topic, client_topics.moves_of(client, topic)))
        elif not show_data(found if names.several(topics) else found[0], output):
            for number, topic in enumerate(found):
                if number:
                    put()
                _show_topic(topic, output)
        is_led = all(row["leader"] >= 0 for topic in found for row in topic["partitions"])
        return names.end(missing, Exit.OK if is_led else Exit.NO)


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
