"""`/admin/reassign_partitions`: partitions to be moved. The znode names the partitions that are still moving, and is
deleted when the last has moved.

Tools read it to determine whether a reassignment is in progress. As in ZooKeeper mode, partitions leave it when they
have moved, and a tool may add more meanwhile. Source: `ReassignPartitionsZNode` and `KafkaController` of Kafka 2.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from trimaran.quorum.metadata.image import MetadataImage, PartitionImage
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import BrokerId, TopicPartition
from trimaran.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from trimaran.zkcompat.legacy.requests.admin_requests import (
    TIMEOUT_MS,
    AdminRequest,
    QuorumRequest,
    RequestKind,
    portions,
    refusal,
)
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, ids, member

REASSIGN_PARTITIONS = "/admin/reassign_partitions"
DELETE = TransactionStep("delete", REASSIGN_PARTITIONS)

Replicas = tuple[BrokerId, ...]
Targets = Mapping[TopicPartition, Replicas]


@dataclass(frozen=True, slots=True)
class Reassignments:
    """The content of the znode: the target replicas of each partition."""

    targets: Targets

    def encode(self) -> bytes:
        partitions = [
            {"topic": topic, "partition": index, "replicas": list(replicas)}
            for (topic, index), replicas in self.targets.items()
        ]
        return encode_json({"version": 1, "partitions": partitions})

    @classmethod
    def decode(cls, data: bytes | None) -> Reassignments:
        """Returns the reassignments in the znode. Raises RemoteProtocolError."""
        found: dict[TopicPartition, Replicas] = {}
        for entry in member(decode_json(data), "partitions", list):
            if not isinstance(entry, dict):
                raise RemoteProtocolError("a partition that is not a JSON object")
            key = TopicPartition(member(entry, "topic", str), member(entry, "partition", int))
            if key in found:
                raise RemoteProtocolError(f"{key} twice")
            found[key] = ids(member(entry, "replicas", list))
        return cls(found)


@dataclass(frozen=True, slots=True)
class ReassignmentProgress:
    """The next actions for the znode: `request` begins moves, `left` are the moves that the znode continues to name.

    `write` is the znode's new content if it differs, or its deletion. `begun` is passed to the next call, once
    `request` is carried out.
    """

    request: AdminRequest | None
    left: Targets
    write: TransactionStep | None
    begun: Targets


def advance(data: bytes | None, image: MetadataImage, begun: Targets) -> ReassignmentProgress:
    """Returns the next actions. `begun` are moves that the quorum has accepted or refused since this mirror leads and
    that the znode has named ever since: the image has their outcome, and they are not requested again.
    """
    try:
        targets = Reassignments.decode(data).targets
    except RemoteProtocolError as error:
        description = "reassign partitions"
        return ReassignmentProgress(
            AdminRequest(
                RequestKind.REASSIGNMENT, description, refused=[f"{description}: {error}"]
            ),
            {},
            DELETE,
            {},
        )
    begun = {key: to for key, to in targets.items() if begun.get(key) == to}
    moving = {key: to for key, to in targets.items() if _is_moving(key, to, image)}
    new = {
        key: to
        for key, to in targets.items()
        if key not in begun and key not in moving and not _is_there(key, to, image)
    }
    if new:
        left = {**moving, **new}
        return ReassignmentProgress(_begin(new), left, None, {**begun, **left})
    begun |= moving
    if not moving:
        return ReassignmentProgress(None, {}, DELETE, begun)
    if len(moving) == len(targets):
        return ReassignmentProgress(None, moving, None, begun)
    write = TransactionStep("set", REASSIGN_PARTITIONS, Reassignments(moving).encode())
    return ReassignmentProgress(None, moving, write, begun)


def _partition(key: TopicPartition, image: MetadataImage) -> PartitionImage | None:
    topic = image.topics.by_name.get(key[0])
    return None if topic is None else topic.partitions.get(key[1])


def _is_moving(key: TopicPartition, target: Replicas, image: MetadataImage) -> bool:
    partition = _partition(key, image)
    if partition is None or not (partition.adding or partition.removing):
        return False
    return (
        tuple(replica for replica in partition.replicas if replica not in partition.removing)
        == target
    )


def _is_there(key: TopicPartition, target: Replicas, image: MetadataImage) -> bool:
    partition = _partition(key, image)
    if partition is None or partition.adding or partition.removing:
        return False
    return partition.replicas == target


def _begin(targets: Targets) -> AdminRequest:

    return AdminRequest(
        RequestKind.REASSIGNMENT,
        f"reassign {len(targets)} partitions",
        quorum_requests=[_request(dict(part)) for part in portions(sorted(targets.items()))],
    )


def _request(targets: Targets) -> QuorumRequest:
    by_topic = groupby(sorted(targets.items()), key=lambda item: item[0][0])
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=list(replicas))
                for (_, index), replicas in group
            ],
        )
        for name, group in by_topic
    ]
    request = AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics)
    return QuorumRequest(request, _refusals)


def _refusals(response: Any) -> list[str]:
    said = refusal("reassign partitions", response.error_code, response.error_message)
    for topic in response.responses:
        for result in topic.partitions:
            description = f"reassign {topic.name}-{result.partition_index}"
            said += refusal(description, result.error_code, result.error_message)
    return said
