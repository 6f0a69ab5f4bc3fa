"""The configuration of a topic: its own configs, then dynamic broker configs, then the properties file.

Source: `LogConfig`, `DynamicLogConfig` of Kafka. Computed on first use and cached until a config changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.log.batches.batch import TimestampType
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.validation.validate import ProduceRules
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.topic_keys import SERVER_SYNONYMS, TOPIC_CONFIGS, topic_value
from trimaran.quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.identity import BrokerId

# The fields of `LogConfig` that have the name and the unconverted value of a topic config.
_SAME_NAMES = tuple(
    (field.name, key)
    for field in fields(LogConfig)
    if (key := field.name.replace("_", ".")) in TOPIC_CONFIGS and key != "message.timestamp.type"
)


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The typed settings that apply to the partitions of a topic."""

    log: LogConfig
    rules: ProduceRules
    min_insync_replicas: int


class TopicSettingsSource:
    """The settings by topic name; at most one entry for each topic in use on this broker."""

    def __init__(self, config: ServerConfig, metadata: BrokerMetadata, node_id: BrokerId) -> None:
        self._config = config
        self._metadata = metadata
        self._node_id = node_id
        self._configs = NodeConfigs(config, lambda: metadata.image.configs)
        self._known: dict[str, TopicSettings] = {}

    def of(self, topic: str) -> TopicSettings:
        settings = self._known.get(topic)
        if settings is None:
            settings = self._known[topic] = self._compute(topic)
        return settings

    def changed(self, topic: str | None) -> None:
        """Drops the settings of `topic`, or of all topics after a change of broker configs (None)."""
        if topic is None:
            self._known.clear()
        else:
            self._known.pop(topic, None)

    def value(self, topic: str, key: str) -> Any:
        """Returns the effective value of one config of `topic`."""
        configs = self._metadata.image.configs
        own = configs.of(TOPIC_RESOURCE, topic)
        if key in own:
            return topic_value(self._config, own, key)
        for resource in (str(self._node_id), ""):
            dynamic = configs.of(BROKER_RESOURCE, resource)
            for server_key, factor in SERVER_SYNONYMS.get(key, ()):
                if server_key in dynamic:
                    parsed = TOPIC_CONFIGS[key].parse_stored(dynamic[server_key])
                    return parsed * factor if factor != 1 else parsed
        return topic_value(self._config, {}, key)

    def _compute(self, topic: str) -> TopicSettings:
        def value(key: str) -> Any:
            return self.value(topic, key)

        policy = value("cleanup.policy")
        append_time = value("message.timestamp.type") == "LogAppendTime"
        log = LogConfig(
            **{name: value(key) for name, key in _SAME_NAMES},
            **_compression(value),
            deletes="delete" in policy,
            compacts="compact" in policy,
            producer_id_expiration_ms=self._configs.now("producer.id.expiration.ms"),
            message_timestamp_type=(
                TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
            ),
        )
        return TopicSettings(log, ProduceRules.of(log), value("min.insync.replicas"))


def _compression(value: Callable[[str], Any]) -> dict[str, Any]:
    """Returns the compression of a topic's log from `compression.type` and the level of its codec."""
    name = value("compression.type")
    if name == "producer":
        return {}
    codec = Compression.NONE if name == "uncompressed" else Compression[name.upper()]
    has_level = codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD)
    level = value(f"compression.{name}.level") if has_level else None
    return {"compression": codec, "compression_level": level}
