"""What the configuration says of a topic: its own configs, else dynamic broker configs, else the properties file.

Source: `LogConfig`, `DynamicLogConfig` of Kafka. Computed when first asked for and kept until a config changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from broker.metadata.metadata_cache import BrokerMetadata
from log.batches.batch import TimestampType
from log.codecs.compression import Compression
from log.config import LogConfig
from log.validation.validate import ProduceRules
from node.config.server import ServerConfig
from node.config.topic_keys import SERVER_SYNONYMS, TOPIC_CONFIGS, topic_value
from quorum.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from quorum.serving.node_configs import NodeConfigs


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The typed values that partitions of a topic go by."""

    log: LogConfig
    rules: ProduceRules
    min_insync_replicas: int


class TopicSettingsSource:
    """Settings by topic name; at most one entry a topic that is in use here."""

    def __init__(self, config: ServerConfig, metadata: BrokerMetadata, node_id: int) -> None:
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
        """Configs of `topic` changed, or of brokers (None)."""
        if topic is None:
            self._known.clear()
        else:
            self._known.pop(topic, None)

    def value(self, topic: str, key: str) -> Any:
        """The value of one topic config that holds for `topic`."""
        configs = self._metadata.image.configs
        own = configs.of(TOPIC_RESOURCE, topic)
        if key in own:
            return topic_value(self._config, own, key)
        for resource in (str(self._node_id), ""):
            dynamic = configs.of(BROKER_RESOURCE, resource)
            for server_key, factor in SERVER_SYNONYMS.get(key, ()):
                if server_key in dynamic:
                    parsed = TOPIC_CONFIGS[key].parse(dynamic[server_key])
                    return parsed * factor if factor != 1 else parsed
        return topic_value(self._config, {}, key)

    def _compute(self, topic: str) -> TopicSettings:
        def value(key: str) -> Any:
            return self.value(topic, key)

        policy = value("cleanup.policy")
        append_time = value("message.timestamp.type") == "LogAppendTime"
        log = LogConfig(
            segment_bytes=value("segment.bytes"),
            segment_ms=value("segment.ms"),
            segment_index_bytes=value("segment.index.bytes"),
            index_interval_bytes=value("index.interval.bytes"),
            flush_messages=value("flush.messages"),
            flush_ms=value("flush.ms"),
            retention_ms=value("retention.ms"),
            retention_bytes=value("retention.bytes"),
            deletes="delete" in policy,
            compacts="compact" in policy,
            preallocate=value("preallocate"),
            file_delete_delay_ms=value("file.delete.delay.ms"),
            segment_jitter_ms=value("segment.jitter.ms"),
            min_cleanable_dirty_ratio=value("min.cleanable.dirty.ratio"),
            delete_retention_ms=value("delete.retention.ms"),
            min_compaction_lag_ms=value("min.compaction.lag.ms"),
            max_compaction_lag_ms=value("max.compaction.lag.ms"),
            producer_id_expiration_ms=self._configs.now("producer.id.expiration.ms"),
            max_message_bytes=value("max.message.bytes"),
            **_compression(value),
            message_timestamp_type=(
                TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME
            ),
            message_timestamp_before_max_ms=value("message.timestamp.before.max.ms"),
            message_timestamp_after_max_ms=value("message.timestamp.after.max.ms"),
        )
        return TopicSettings(log, ProduceRules.of(log), value("min.insync.replicas"))


def _compression(value: Callable[[str], Any]) -> dict[str, Any]:
    """What `compression.type` and the level of its codec make of a topic's log."""
    name = value("compression.type")
    if name == "producer":
        return {}
    codec = Compression.NONE if name == "uncompressed" else Compression[name.upper()]
    has_level = codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD)
    level = value(f"compression.{name}.level") if has_level else None
    return {"compression": codec, "compression_level": level}
