"""`/config/TYPE/NAME`: the configs of a topic, broker, user, client or ip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimaran.zkcompat.znodes.json_form import decode_json, encode_json, member, properties_order

CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"


@dataclass(frozen=True, slots=True)
class EntityConfig:
    """The dynamic configs of a topic or broker; `entity` is `<default>` for all brokers."""

    config: Mapping[str, str]

    @staticmethod
    def topic_path(topic: str) -> str:
        return f"{CONFIG_TOPICS}/{topic}"

    @staticmethod
    def broker_path(entity: str) -> str:
        return f"{CONFIG_BROKERS}/{entity}"

    def encode(self) -> bytes:
        ordered = {key: self.config[key] for key in properties_order(self.config)}
        return encode_json({"version": 1, "config": ordered})

    @classmethod
    def decode(cls, data: bytes | None) -> EntityConfig:
        config = member(decode_json(data), "config", dict)
        return cls({key: str(value) for key, value in config.items()})
