"""`/brokers/topics/T`: the replicas of a topic's partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trimaran.wire.buffers.primitives import uuid_from_text, uuid_to_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import BrokerId
from trimaran.zkcompat.znodes.json_form import (
    decode_json,
    encode_json,
    ids,
    member,
    scala_map_order,
)

BROKER_TOPICS = "/brokers/topics"


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The replicas of each partition. Empty lists of adding and removing replicas are omitted."""

    topic_id: bytes
    partitions: Mapping[int, Sequence[BrokerId]]
    adding: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)
    removing: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)

    @staticmethod
    def path(topic: str) -> str:
        return f"{BROKER_TOPICS}/{topic}"

    def encode(self) -> bytes:
        return encode_json(
            {
                "partitions": _by_partition(self.partitions),
                "topic_id": uuid_to_text(self.topic_id),
                "adding_replicas": _by_partition(self.adding),
                "removing_replicas": _by_partition(self.removing),
                "version": 3,
            }
        )

    @classmethod
    def decode(cls, data: bytes | None) -> TopicAssignment:
        members = decode_json(data)
        try:
            topic_id = uuid_from_text(member(members, "topic_id", str))
        except ValueError as error:
            raise RemoteProtocolError(str(error)) from error
        return cls(
            topic_id,
            _replicas(members, "partitions"),
            _replicas(members, "adding_replicas"),
            _replicas(members, "removing_replicas"),
        )


def _by_partition(replicas: Mapping[int, Sequence[BrokerId]]) -> dict[str, list[BrokerId]]:
    texts = {str(partition): list(brokers) for partition, brokers in replicas.items() if brokers}
    return {text: texts[text] for text in scala_map_order(texts)}


def _replicas(members: dict[str, Any], name: str) -> dict[int, tuple[BrokerId, ...]]:
    found: dict[int, tuple[BrokerId, ...]] = {}
    for text, brokers in member(members, name, dict).items():
        if not text.isdecimal() or not isinstance(brokers, list):
            raise RemoteProtocolError(f"{name} of a topic znode has {text!r}")
        found[int(text)] = ids(brokers)
    return found
