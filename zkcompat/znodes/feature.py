"""`/feature`: the finalised features of ZooKeeper mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member


@dataclass(frozen=True, slots=True)
class FeatureZnode:
    """Finalised features. There are none here, since a KRaft cluster keeps its own in the metadata log."""

    PATH: ClassVar = "/feature"

    def encode(self) -> bytes:
        return encode_json({"features": {}, "version": 2, "status": 1})

    @classmethod
    def decode(cls, data: bytes | None) -> FeatureZnode:
        member(decode_json(data), "features", dict)
        return cls()
