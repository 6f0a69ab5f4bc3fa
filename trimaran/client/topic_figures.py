"""Figures of many topics at once: bytes, records, policies and the time of the last record. Each is supplementary: a
broker that does not respond, or a topic that this client may not describe, only has fewer figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from trimaran.client.configs import reported_configs
from trimaran.client.log_dirs import log_dirs_of
from trimaran.client.offsets import (
    ASIDE_SECONDS,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    end_offsets,
    newest_timestamps,
)
from trimaran.errors.user_error import UserError
from trimaran.quorum.metadata.image import TOPIC_RESOURCE
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import BrokerId, TopicPartition

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.metadata import MetadataResponseTopic

Topics = Sequence["MetadataResponseTopic"]


class RecordCount(NamedTuple):
    """The number of offsets of a topic, and the sum of its end offsets, which grows with each record."""

    records: int
    ends: int


class Policy(NamedTuple):
    """`retention_ms` and `retention_bytes` are -1 without a limit."""

    cleanup: str
    retention_ms: int
    retention_bytes: int


def _led(topics: Topics) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name or "", partition.partition_index)
        for topic in topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    ]


def topic_sizes(client: BlockingClient, topics: Topics) -> dict[str, int]:
    """Returns the bytes of each topic on the disks of its leaders."""
    leaders = {
        (topic.name, partition.partition_index): partition.leader_id
        for topic in topics
        for partition in topic.partitions
    }
    sizes: dict[str, int] = {}
    for broker in sorted({leader for leader in leaders.values() if leader >= 0}):
        names = sorted({str(name) for (name, _), leader in leaders.items() if leader == broker})
        try:
            rows = log_dirs_of(client, BrokerId(broker), names, timeout=ASIDE_SECONDS)
        except (KafkaError, ConnectionLost, RequestTimedOut):
            continue
        for row in rows:
            for replica in row["replicas"]:
                name = replica["topic"]
                is_led = leaders.get((name, replica["partition"])) == broker
                if is_led and not replica["is_future"]:
                    sizes[name] = sizes.get(name, 0) + max(0, replica["size"])
    return sizes


def record_counts(client: BlockingClient, topics: Topics) -> dict[str, RecordCount]:
    """Returns the counts of the topics of which every partition has a leader that responds."""
    ends = end_offsets(client, _led(topics), LATEST_TIMESTAMP)
    begins = end_offsets(client, ends, EARLIEST_TIMESTAMP)
    found = {}
    for topic in topics:
        keys = [TopicPartition(topic.name or "", p.partition_index) for p in topic.partitions]
        if all(key in begins for key in keys):
            total = sum(ends[key] for key in keys)
            count = total - sum(begins[key] for key in keys)
            found[topic.name or ""] = RecordCount(max(0, count), total)
    return found


def last_writes(client: BlockingClient, topics: Topics) -> dict[str, int]:
    """Returns the largest timestamp of the records of each topic, in ms; topics without records are omitted. Brokers
    before Kafka 3.0 do not report it.
    """
    newest: dict[str, int] = {}
    try:
        for (name, _), timestamp in newest_timestamps(client, _led(topics)).items():
            if timestamp >= 0:
                newest[name] = max(newest.get(name, -1), timestamp)
    except VersionMismatch:
        return {}
    return newest


def policies(client: BlockingClient, names: Iterable[str]) -> dict[str, Policy]:
    """Returns the policies; none if this client may not describe the configs of one of the topics."""
    keys = ["cleanup.policy", "retention.ms", "retention.bytes"]
    wanted = sorted(names)
    if not wanted:
        return {}
    try:
        told = reported_configs(client, TOPIC_RESOURCE, wanted, keys=keys)
    except (KafkaError, UserError):
        return {}
    found = {}
    for name, configs in told.items():
        values = {config.name: config.value for config in configs}
        if all(values.get(key) is not None for key in keys):
            cleanup, milliseconds, size = (values[key] for key in keys)
            found[name] = Policy(cleanup, int(milliseconds), int(size))
    return found
