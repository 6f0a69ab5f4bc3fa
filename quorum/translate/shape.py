"""The common shape of requests and responses about the metadata partition.

A message that names another partition, several, or none (mE10) is refused here with Kafka's error code; any other is
well-formed.
"""

from __future__ import annotations

from typing import Any

from trimaran.quorum.raft.types import ReplicaKey, VoterEndpoint
from trimaran.quorum.raft_log.partition import PARTITION, TOPIC, TOPIC_ID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId


class WrongShape(KafkaError):
    """The request does not name exactly the metadata partition; the code is the top-level error of the response."""


def only_partition(topics: list[Any]) -> Any:
    """Returns the single partition of the single topic, which is named or given by id."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise WrongShape(ErrorCode.INVALID_REQUEST)
    topic, partition = topics[0], topics[0].partitions[0]
    name = (
        getattr(topic, "topic_name", None)
        or getattr(topic, "topic", None)
        or getattr(topic, "name", None)
    )
    named = name == TOPIC if name else getattr(topic, "topic_id", None) == TOPIC_ID
    index = getattr(
        partition,
        "partition_index",
        getattr(partition, "partition", getattr(partition, "index", None)),
    )
    if not named or index != PARTITION:
        raise WrongShape(ErrorCode.INVALID_REQUEST)
    return partition


def voter_key(voter_id: NodeId, directory_id: bytes) -> ReplicaKey | None:
    return ReplicaKey(voter_id, directory_id) if voter_id >= 0 else None


def endpoints_of(listed: list[Any]) -> tuple[VoterEndpoint, ...]:
    """Returns the endpoints. Listener names are case-insensitive (Kafka's `ListenerName.normalised`)."""
    return tuple(VoterEndpoint(e.name.upper(), e.host, e.port) for e in listed)
