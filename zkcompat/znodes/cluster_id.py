"""`/cluster/id`: the Kafka cluster of the tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member


@dataclass(frozen=True, slots=True)
class ClusterId:
    PATH: ClassVar = "/cluster/id"
    id: str

    def encode(self) -> bytes:
        return encode_json({"version": "1", "id": self.id})

    @classmethod
    def decode(cls, data: bytes | None) -> ClusterId:
        return cls(member(decode_json(data), "id", str))
