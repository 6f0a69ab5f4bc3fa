"""`/brokers/topics/TOPIC` as tools write it: a new topic, or more partitions of one.

Tools do not create topic ids: kafka-topics from 2.8 on keeps the id that it finds, and earlier ones drop it. So a znode
with an id that the image does not have is a leftover of a deleted topic, not a tool's write. The configs of a new topic
are written to `/config/topics/TOPIC` before it. Source: `AdminZkClient` of Kafka 2.8, `AdminUtils` of 0.8.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimaran.quorum.metadata.image import MetadataImage, TopicImage
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from trimaran.zkcompat.legacy.requests.admin_requests import (
    TIMEOUT_MS,
    AdminRequest,
    QuorumRequest,
    RequestKind,
    refusal,
)
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.json_form import decode_json, decode_or_none, ids, member
from trimaran.zkcompat.znodes.topic_assignment import TopicAssignment

BY_ASSIGNMENT = -1


@dataclass(frozen=True, slots=True)
class Assignment:
    """A topic's assignment as a tool wrote it, in any version of the znode."""

    partitions: Mapping[int, Sequence[BrokerId]]
    has_id: bool

    @classmethod
    def decode(cls, data: bytes | None) -> Assignment:
        """Returns the assignment in the znode. Raises RemoteProtocolError."""
        members = decode_json(data)
        found: dict[int, Sequence[BrokerId]] = {}
        for text, replicas in member(members, "partitions", dict).items():
            if not (text.isascii() and text.isdecimal() and len(text) <= 10):
                raise RemoteProtocolError(f"a partition {text[:20]!r}")
            if not isinstance(replicas, list):
                raise RemoteProtocolError(f"partition {text} has no list of replicas")
            found[int(text)] = ids(replicas)
        return cls(found, "topic_id" in members)


def decide(
    topic: str, data: bytes | None, config: bytes | None, image: MetadataImage
) -> AdminRequest | None:
    """Returns the request of a topic's znode; None if no tool wrote it. `config` is the data of its znode in
    `/config/topics`.
    """
    assignment = decode_or_none(Assignment.decode, data)
    known = image.topics.by_name.get(topic)
    if known is not None:
        return None if assignment is None else _more_partitions(known, assignment)
    if assignment is None:
        refused = [f"create topic {topic}: its znode says no assignment"]
        return AdminRequest(
            RequestKind.TOPIC, f"create topic {topic}", refused=refused, entities=_entities(topic)
        )
    return None if assignment.has_id else _create(topic, assignment, config)


def _entities(topic: str) -> Sequence[str]:
    return (TopicAssignment.path(topic),)


def _create(topic: str, assignment: Assignment, config: bytes | None) -> AdminRequest:
    description = f"create topic {topic}"
    wanted = decode_or_none(EntityConfig.decode, config)
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic,
                num_partitions=BY_ASSIGNMENT,
                replication_factor=BY_ASSIGNMENT,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in sorted(assignment.partitions.items())
                ],
                configs=[
                    CreatableTopicConfig(name=name, value=value)
                    for name, value in sorted(wanted.config.items() if wanted else ())
                ],
            )
        ],
        timeout_ms=TIMEOUT_MS,
    )

    def refusals(response: Any) -> list[str]:
        (result,) = response.topics
        there = ErrorCode.TOPIC_ALREADY_EXISTS  # An earlier mirror sent the request and was killed.
        return refusal(description, result.error_code, result.error_message, there)

    return AdminRequest(
        RequestKind.TOPIC,
        description,
        quorum_requests=[QuorumRequest(request, refusals)] if assignment.partitions else [],
        refused=[] if assignment.partitions else [f"{description}: no partitions"],
        entities=_entities(topic),
    )


def _more_partitions(known: TopicImage, assignment: Assignment) -> AdminRequest | None:
    """Returns a request to add partitions; any other difference is damage, which the mirror repairs."""
    added = {n: r for n, r in assignment.partitions.items() if n not in known.partitions}
    if not added:
        return None
    count = len(known.partitions) + len(added)
    description = f"add {len(added)} partitions to topic {known.name}"
    entities = _entities(known.name)
    if max(added) != count - 1 or len(assignment.partitions) != count:
        refused = [f"{description}: their numbers do not follow those that there are"]
        return AdminRequest(RequestKind.PARTITIONS, description, refused=refused, entities=entities)
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=known.name,
                count=count,
                assignments=[
                    CreatePartitionsAssignment(broker_ids=list(added[n])) for n in sorted(added)
                ],
            )
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=False,
    )

    def refusals(response: Any) -> list[str]:
        (result,) = response.results
        return refusal(description, result.error_code, result.error_message)

    return AdminRequest(
        RequestKind.PARTITIONS,
        description,
        quorum_requests=[QuorumRequest(request, refusals)],
        entities=entities,
    )
