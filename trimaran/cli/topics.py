"""`topics list|create|describe|delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, check
from trimaran.cli.output import Format, say, show_json, show_rows
from trimaran.errors import Exit, UserError

if TYPE_CHECKING:
    from wire.blocking import BlockingClient
    from wire.messages.metadata import MetadataResponseTopic

TIMEOUT_MS = 30_000


def list_topics(
    *,
    brokers: Brokers = BROKERS,
    internal: bool = False,
    output: Format = "table",
) -> None:
    """Lists topics with their partition and replica counts; internal ones only when asked for."""
    with brokers.connected() as client:
        topics = _metadata(client, None)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replica_nodes) for p in topic.partitions), default=0),
            "internal": topic.is_internal,
        }
        for topic in sorted(topics, key=lambda t: t.name or "")
        if internal or not topic.is_internal
    ]
    show_rows(rows, output, columns=["topic", "partitions", "replicas", "internal"])


def create(
    name: str,
    *,
    partitions: Annotated[int, Parameter(name=["-p", "--partitions"])] = -1,
    replication: Annotated[int, Parameter(name=["-r", "--replication-factor"])] = -1,
    config: Annotated[list[str] | None, Parameter(name="--config")] = None,
    brokers: Brokers = BROKERS,
) -> None:
    """Creates a topic; partitions and replicas default to the brokers' settings."""
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
        result = client.call(None, request, retry_unknown=False).topics[0]
        check(result.error_code, result.error_message)
    say(f"created {name}: {result.num_partitions} partitions, {result.replication_factor} replicas")


def delete(name: str, *, brokers: Brokers = BROKERS) -> None:
    """Deletes a topic and all its records."""
    from wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
    from wire.primitives import NIL_UUID

    with brokers.connected() as client:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=NIL_UUID)], timeout_ms=TIMEOUT_MS
        )
        result = client.call(None, request, retry_unknown=False).responses[0]
        check(result.error_code, result.error_message)
    say(f"deleted {name}")


def describe(name: str, *, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Shows leader, replicas and ISR of each partition; exit code 1 when a partition has no leader."""
    from wire.primitives import uuid_to_text

    with brokers.connected() as client:
        topics = _metadata(client, [name])
    topic = topics[0]
    if topic.error_code:
        raise UserError(
            f"there is no topic {name}",
            f"the brokers answer with error {topic.error_code}",
            "trimaran topics list shows what there is",
            exit_code=Exit.REFUSED,
        )
    rows = [_partition_row(p) for p in sorted(topic.partitions, key=lambda p: p.partition_index)]
    if output == "json":
        show_json({"topic": name, "topic_id": uuid_to_text(topic.topic_id), "partitions": rows})
    else:
        show_rows(rows, output)
    return Exit.NO if any(row["leader"] < 0 for row in rows) else Exit.OK


def _partition_row(partition: Any) -> dict[str, Any]:
    return {
        "partition": partition.partition_index,
        "leader": partition.leader_id,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replica_nodes),
        "isr": list(partition.isr_nodes),
        "offline": list(partition.offline_replicas),
    }


def _metadata(client: BlockingClient, names: list[str] | None) -> list[MetadataResponseTopic]:
    from wire.messages.metadata import MetadataRequest, MetadataRequestTopic

    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = client.call(None, MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    return list(answer.topics)
