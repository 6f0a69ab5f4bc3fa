"""Partitions as reported by brokers: rows, and tests for partitions with problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trimaran.client.configs import reported_configs
from trimaran.errors.refused import check_topic
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.identity import BrokerId, TopicPartition
from trimaran.wire.later import imported_later
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from trimaran.quorum.metadata import image
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic
else:
    image = imported_later("trimaran.quorum.metadata.image")

Row = Mapping[str, Any]
Test = Callable[[Row], bool]


def topics_of(
    client: BlockingClient, names: Sequence[str] | None
) -> Sequence[MetadataResponseTopic]:
    """Returns the metadata of the named topics, or of all with None, including errors."""
    named = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    response = client.call(None, MetadataRequest(topics=named, allow_auto_topic_creation=False))
    topics: Sequence[MetadataResponseTopic] = response.topics
    return topics


def topic_of(client: BlockingClient, name: str) -> MetadataResponseTopic:
    """Returns the metadata of one topic. Raises KafkaError, and UserError if there is no such topic."""
    topic: MetadataResponseTopic = single_item(topics_of(client, [name]), "topic")
    check_topic(name, topic.error_code)
    return topic


def known_topic(topic: MetadataResponseTopic) -> MetadataResponseTopic:
    """Returns the metadata of a topic. Raises KafkaError, and UserError if there is no such topic."""
    check_topic(topic.name or "", topic.error_code)
    return topic


def replicas_of(topics: Iterable[MetadataResponseTopic]) -> dict[TopicPartition, list[BrokerId]]:
    """Returns the replicas by topic and partition."""
    return {
        TopicPartition(topic.name or "", partition.partition_index): list(partition.replica_nodes)
        for topic in topics
        for partition in topic.partitions
    }


def partitions_of(
    client: BlockingClient, topics: Sequence[MetadataResponseTopic], wanted: Sequence[Test]
) -> list[dict[str, Any]]:
    """See `rows_of`."""
    for topic in topics:
        known_topic(topic)
    minimums: dict[str, int] = {}
    if is_at_min_isr in wanted or is_under_min_isr in wanted:
        minimums = _min_insync_replicas(client, [topic.name or "" for topic in topics])
    return rows_of(topics, wanted, minimums)


def _min_insync_replicas(client: BlockingClient, topics: Sequence[str]) -> dict[str, int]:
    if not topics:
        return {}
    told = reported_configs(client, image.TOPIC_RESOURCE, topics, keys=["min.insync.replicas"])
    return {name: int(configs[0].value) for name, configs in told.items()}


def rows_of(
    topics: Sequence[MetadataResponseTopic],
    wanted: Sequence[Test],
    minimums: Mapping[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Returns a row for each partition that any test in `wanted` accepts, or for all. `minimums` is min.insync.replicas
    by topic, if known.
    """
    rows = [
        {
            "topic": topic.name,
            "partition": partition.partition_index,
            "leader": partition.leader_id,
            "replicas": list(partition.replica_nodes),
            "isr": list(partition.isr_nodes),
            "min_isr": (minimums or {}).get(topic.name or ""),
        }
        for topic in sorted(topics, key=lambda topic: topic.name or "")
        for partition in sorted(topic.partitions, key=lambda one: one.partition_index)
    ]
    return [row for row in rows if not wanted or any(test(row) for test in wanted)]


def is_under_replicated(row: Row) -> bool:
    return len(row["isr"]) < len(row["replicas"])


def is_offline(row: Row) -> bool:
    return bool(row["leader"] < 0)


def _min_isr(row: Row) -> int:
    """Returns the effective minimum, which is at most the number of replicas, as in Kafka."""
    return min(int(row["min_isr"]), len(row["replicas"]))


def is_at_min_isr(row: Row) -> bool:
    return len(row["isr"]) == _min_isr(row)


def is_under_min_isr(row: Row) -> bool:
    return len(row["isr"]) < _min_isr(row)


def is_not_preferred(row: Row) -> bool:
    return bool(row["leader"] >= 0 and row["leader"] != row["replicas"][0])
