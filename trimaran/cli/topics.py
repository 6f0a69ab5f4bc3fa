"""`topics list|create|alter|describe|delete`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, counted, say, show_json, show_rows
from trimaran.client.connect import check
from trimaran.client.partitions import (
    is_at_min_isr,
    is_offline,
    is_under_min_isr,
    is_under_replicated,
    partitions_of,
    topics_of,
)
from trimaran.errors import Exit, UserError

if TYPE_CHECKING:
    from wire.blocking import BlockingClient

TIMEOUT_MS = 30_000


def list_topics(
    *,
    brokers: Brokers = BROKERS,
    internal: bool = False,
    under_replicated: bool = False,
    at_min_isr: bool = False,
    under_min_isr: bool = False,
    unavailable: bool = False,
    output: Format = "table",
) -> int:
    """Lists topics with their partition and replica counts; internal ones only when asked for.

    Args:
        internal: those that the brokers keep for themselves, too.
        under_replicated: only topics with partitions of which a replica is not in step; exit code 1 when there are
            some.
        at_min_isr: only topics with partitions that have just as many replicas in step as min.insync.replicas wants.
        under_min_isr: only topics with partitions that have fewer, and so take no records with acks=all.
        unavailable: only topics with partitions that have no leader.
        output: table, or json.
    """
    tests = (
        (under_replicated, is_under_replicated),
        (at_min_isr, is_at_min_isr),
        (under_min_isr, is_under_min_isr),
        (unavailable, is_offline),
    )
    wanted = [test for given, test in tests if given]
    with brokers.connected() as client:
        topics = topics_of(client, None)
        found = partitions_of(client, topics, wanted) if wanted else []
    concerned = Counter(row["topic"] for row in found)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replica_nodes) for p in topic.partitions), default=0),
            "internal": topic.is_internal,
            **({"concerned": concerned[topic.name]} if wanted else {}),
        }
        for topic in sorted(topics, key=lambda t: t.name or "")
        if (topic.name in concerned if wanted else internal or not topic.is_internal)
    ]
    columns = ["topic", "partitions", "replicas", "internal", *(["concerned"] if wanted else [])]
    show_rows(rows, output, columns=columns)
    return Exit.NO if wanted and rows else Exit.OK


def create(
    name: str,
    *,
    partitions: Annotated[int, Parameter(name=["-p", "--partitions"])] = -1,
    replication: Annotated[int, Parameter(name=["-r", "--replication-factor"])] = -1,
    config: Annotated[list[str] | None, Parameter(name="--config")] = None,
    brokers: Brokers = BROKERS,
) -> None:
    """Creates a topic; partitions and replicas default to the brokers' settings."""
    from wire.client.answers import the_one
    from wire.messages.create_topics import (
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    pairs = [word.partition("=") for word in config or []]
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, _, value in pairs],
    )
    with brokers.connected() as client:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS)
        result = the_one(client.call(None, request, retry_unknown=False).topics, "topic")
        check(result.error_code, result.error_message)
    say(
        f"created {name}: {counted(result.num_partitions, 'partition')}, "
        f"{counted(result.replication_factor, 'replica')}"
    )


def alter(
    name: str,
    *,
    partitions: Annotated[int, Parameter(name=["-p", "--partitions"])],
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Gives a topic more partitions; for its configs there is configs set topic/NAME.

    Records with a key may go to other partitions from then on.

    Args:
        name: which topic.
        partitions: how many it has then.
        dry_run: only have it checked.
    """
    from wire.client.answers import the_one
    from wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=dry_run)
    with brokers.connected() as client:
        result = the_one(client.call(None, request, retry_unknown=False).results, "topic")
        check(result.error_code, result.error_message)
    say(f"{name} {'would have' if dry_run else 'has'} {counted(partitions, 'partition')}")


def delete(name: str, *, brokers: Brokers = BROKERS) -> None:
    """Deletes a topic and all its records."""
    from wire.client.answers import the_one
    from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
    from wire.primitives import NIL_UUID

    with brokers.connected() as client:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=NIL_UUID)], timeout_ms=TIMEOUT_MS
        )
        result = the_one(client.call(None, request, retry_unknown=False).responses, "topic")
        check(result.error_code, result.error_message)
    say(f"deleted {name}")


def describe(name: str, *, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Shows leader, replicas, ISR and eligible leaders of each partition.

    Exit code 1 when a partition has no leader.
    """
    from wire.primitives import uuid_to_text

    with brokers.connected() as client:
        topic, partitions = _described(client, name)
    if topic.error_code:
        raise UserError(
            f"there is no topic {name}",
            f"the brokers answer with error {topic.error_code}",
            "trimaran topics list shows what there is",
            exit_code=Exit.REFUSED,
        )
    rows = [_partition_row(p) for p in sorted(partitions, key=lambda p: p.partition_index)]
    if output == "json":
        show_json({"topic": name, "topic_id": uuid_to_text(topic.topic_id), "partitions": rows})
    else:
        show_rows(rows, output)
    return Exit.NO if any(row["leader"] < 0 for row in rows) else Exit.OK


def _described(client: BlockingClient, name: str) -> tuple[Any, list[Any]]:
    """The topic, an error in it, and its partitions; without eligible leaders where brokers cannot tell them (Apache
    Kafka before 3.7).
    """
    from wire.client.answers import the_one
    from wire.client.errors import VersionMismatch
    from wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest

    partitions: list[Any] = []
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)])
    try:
        while True:
            page = client.call(None, request)
            topic = the_one(page.topics, "topic")
            partitions += topic.partitions
            if page.next_cursor is None:
                return topic, partitions
            request.cursor = page.next_cursor
    except VersionMismatch:
        topic = the_one(topics_of(client, [name]), "topic")
        return topic, topic.partitions


def _partition_row(partition: Any) -> dict[str, Any]:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "elr": getattr(partition, "eligible_leader_replicas", None),
        "last_known_elr": getattr(partition, "last_known_elr", None),
        "offline": list(partition.offline_replicas),
    }
