"""Topics as described by brokers: the list of topics, and the details of one topic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trimaran.client.configs import reported_configs
from trimaran.client.log_dirs import replica_sizes
from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, end_offsets
from trimaran.client.partitions import topics_of
from trimaran.client.reassignments import reassignment_rows
from trimaran.errors.refused import check_topic
from trimaran.node.config.config_source import ConfigSource
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.later import imported_later
from trimaran.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from trimaran.wire.text.java_order import java_hash_order

if TYPE_CHECKING:
    from trimaran.quorum.metadata import image
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic
else:
    image = imported_later("trimaran.quorum.metadata.image")


def topic_rows(topics: Sequence[MetadataResponseTopic]) -> list[dict[str, Any]]:
    """Returns a row for each topic, in the order of names."""
    return [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(p.replica_nodes) for p in topic.partitions), default=0),
            "internal": topic.is_internal,
        }
        for topic in sorted(topics, key=lambda topic: topic.name or "")
    ]


def topic_described(client: BlockingClient, name: str) -> dict[str, Any]:
    """Returns the id, the configs that differ from the defaults, and a row for each partition with its offsets and its
    size in bytes on the leader's disk.

    Raises:
        UserError: there is no such topic.
    """
    topic, partitions = _described(client, name)
    check_topic(name, topic.error_code)
    rows = [_partition_row(p) for p in sorted(partitions, key=lambda p: p.partition_index)]
    add_offsets(client, name, rows)
    return {
        "topic": name,
        "topic_id": uuid_to_text(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": max((len(row["replicas"]) for row in rows), default=0),
        "configs": set_configs_of(client, name),
        "partitions": rows,
    }


def set_configs_of(client: BlockingClient, topic: str) -> dict[str, str | None]:
    """Returns the configs that were set, on the topic or for all brokers, as Kafka's tool shows them, in the order in
    which it prints them: that of the hash table in `Config` of its admin client.
    """
    (configs,) = reported_configs(client, image.TOPIC_RESOURCE, [topic]).values()
    told = {config.name: config for config in configs}
    return {
        name: told[name].value
        for name in java_hash_order(list(told))
        if told[name].config_source != ConfigSource.DEFAULT
    }


def add_offsets(client: BlockingClient, topic: str, rows: list[dict[str, Any]]) -> None:
    """Adds `begin`, `end` and `size` to the rows; None for partitions without a leader that reports them."""
    led = [TopicPartition(topic, row["partition"]) for row in rows if row["leader"] >= 0]
    begins = end_offsets(client, led, EARLIEST_TIMESTAMP)
    # A broker that did not respond is not queried again.
    ends = end_offsets(client, begins, LATEST_TIMESTAMP)
    leaders = {row["leader"] for row in rows if (topic, row["partition"]) in begins}
    sizes = replica_sizes(client, topic, leaders)
    for row in rows:
        key = TopicPartition(topic, row["partition"])
        row["begin"], row["end"] = begins.get(key), ends.get(key)
        row["size"] = sizes.get((row["leader"], row["partition"]))


def _described(client: BlockingClient, name: str) -> tuple[Any, list[Any]]:
    """Returns the topic, its error if any, and its partitions; without eligible leaders if the brokers do not report
    them (Apache Kafka before 3.7).
    """
    partitions: list[Any] = []
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)])
    try:
        while True:
            page = client.call(None, request)
            topic = single_item(page.topics, "topic")
            partitions += topic.partitions
            if page.next_cursor is None:
                return topic, partitions
            request.cursor = page.next_cursor
    except VersionMismatch:
        topic = single_item(topics_of(client, [name]), "topic")
        return topic, list(topic.partitions)


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


def moves_of(client: BlockingClient, topic: dict[str, Any]) -> dict[int, dict[str, list[int]]]:
    """Returns reassignments in progress by partition; none if the client is not authorized to list them."""
    among = {topic["topic"]: [row["partition"] for row in topic["partitions"]]}
    try:
        rows = reassignment_rows(client, among)
    except KafkaError:
        return {}
    return {row["partition"]: {way: row[way] for way in ("adding", "removing")} for row in rows}
