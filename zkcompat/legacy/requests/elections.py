"""`/admin/preferred_replica_election`: partitions whose preferred replicas should become leaders.

Source: `PreferredReplicaElectionZNode` of Kafka 2.8.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from trimaran.zkcompat.legacy.requests.admin_requests import (
    TIMEOUT_MS,
    AdminRequest,
    QuorumRequest,
    RequestKind,
    portions,
    refusal,
)
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.znodes.json_form import decode_json, member

PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
PREFERRED = 0


def decode(data: bytes | None) -> list[TopicPartition]:
    """Returns the partitions in the znode. Raises RemoteProtocolError."""
    found: dict[TopicPartition, None] = {}
    for entry in member(decode_json(data), "partitions", list):
        if not isinstance(entry, dict):
            raise RemoteProtocolError("a partition that is not a JSON object")
        found[TopicPartition(member(entry, "topic", str), member(entry, "partition", int))] = None
    return list(found)


def decide(path: str, data: bytes | None, image: MetadataImage) -> AdminRequest:
    """Returns the request of the znode."""
    cleanup = (TransactionStep("delete", path),)
    description = "elect preferred leaders"
    try:
        asked = sorted(decode(data))
    except RemoteProtocolError as error:
        return AdminRequest(
            RequestKind.ELECTION, description, refused=[f"{description}: {error}"], cleanup=cleanup
        )
    known = [key for key in asked if _exists(key, image)]
    refused = [f"{description}: no partition {key}" for key in asked if not _exists(key, image)]
    return AdminRequest(
        RequestKind.ELECTION,
        f"elect preferred leaders of {len(asked)} partitions",
        quorum_requests=[_request(part) for part in portions(known)],
        refused=refused,
        cleanup=cleanup,
    )


def _exists(key: TopicPartition, image: MetadataImage) -> bool:
    topic = image.topics.by_name.get(key.topic)
    return topic is not None and key.partition in topic.partitions


def _request(partitions: list[TopicPartition]) -> QuorumRequest:
    by_topic = groupby(partitions, key=lambda partition: partition[0])
    topics = [TopicPartitions(topic=t, partitions=[p for _, p in group]) for t, group in by_topic]
    request = ElectLeadersRequest(
        election_type=PREFERRED, topic_partitions=topics, timeout_ms=TIMEOUT_MS
    )
    return QuorumRequest(request, _refusals)


def _refusals(response: Any) -> list[str]:
    said = refusal("elect preferred leaders", response.error_code, None)
    for topic in response.replica_election_results:
        for result in topic.partition_result:
            description = f"elect the preferred leader of {topic.topic}-{result.partition_id}"
            needless = ErrorCode.ELECTION_NOT_NEEDED
            said += refusal(description, result.error_code, result.error_message, needless)
    return said
