"""`/config/changes/config_change_N`: the note that a config changed."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member

CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = f"{CONFIG_CHANGES}/config_change_"


@dataclass(frozen=True, slots=True)
class ConfigChangeNote:
    """A sequential note that the configs of `entity_path` (`topics/T`, `brokers/N`) changed."""

    entity_path: str

    def encode(self) -> bytes:
        return encode_json({"version": 2, "entity_path": self.entity_path})

    @classmethod
    def decode(cls, data: bytes | None) -> ConfigChangeNote:
        return cls(member(decode_json(data), "entity_path", str))
