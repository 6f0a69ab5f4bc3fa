"""The configs of a topic: names, defaults and bounds of Apache Kafka 4.4, and the server keys with their defaults.

Source: Kafka's `TopicConfig`, `LogConfig`, `ServerTopicConfigSynonyms`. Each key without an effect gives the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.node.config.config_def import (
    INT_MAX,
    LONG_MAX,
    ConfigDef,
    ConfigError,
    ConfigKey,
    all_of,
    at_least,
    between,
    between_or_default,
    one_of,
)
from trimaran.node.config.log_keys import CODECS

if TYPE_CHECKING:
    from trimaran.node.config.server import ServerConfig

DAY_MS = 24 * 3600 * 1000

# The format that Kafka's `ThrottledReplicaListValidator` accepts.
_THROTTLED_REPLICA = re.compile(r"[0-9]+:[0-9]+")
_NOT_TIERED = "tiered storage is not supported"


def _throttled_replicas(value: list[str]) -> str | None:
    if value == ["*"] or all(_THROTTLED_REPLICA.fullmatch(replica) for replica in value):
        return None
    return "write '*', or a list of PARTITION:BROKER"


TOPIC_CONFIGS = ConfigDef(
    (
        ConfigKey(
            "cleanup.policy",
            "list",
            ["delete"],
            "The treatment of old segments: delete, compact or both.",
            all_of("compact", "delete"),
        ),
        ConfigKey(
            "compression.type",
            "string",
            "producer",
            "Compression of stored batches; producer keeps what the producer chose.",
            one_of(*CODECS),
        ),
        ConfigKey(
            "compression.gzip.level",
            "int",
            -1,
            "Compression level of gzip.",
            between_or_default(1, 9),
        ),
        ConfigKey("compression.lz4.level", "int", 9, "Compression level of lz4.", between(1, 17)),
        ConfigKey(
            "compression.zstd.level",
            "int",
            3,
            "Compression level of zstd.",
            between(-131072, 22),
        ),
        ConfigKey(
            "delete.retention.ms",
            "long",
            DAY_MS,
            "Time for which tombstones of a compacted topic stay.",
            at_least(0),
        ),
        ConfigKey(
            "errors.deadletterqueue.group.enable",
            "boolean",
            False,
            "Whether share groups may write records that they give up to this topic.",
        ),
        ConfigKey(
            "file.delete.delay.ms",
            "long",
            60_000,
            "Time for which the file of a deleted segment stays.",
            at_least(0),
        ),
        ConfigKey(
            "flush.messages", "long", LONG_MAX, "Records after which a log is flushed.", at_least(1)
        ),
        ConfigKey(
            "flush.ms",
            "long",
            LONG_MAX,
            "Time after which a log is flushed, checked every log.flush.scheduler.interval.ms.",
            at_least(0),
        ),
        ConfigKey(
            "follower.replication.throttled.replicas",
            "list",
            [],
            "Replicas whose follower side is throttled: PARTITION:BROKER, or * for all.",
            _throttled_replicas,
            gaps=True,
        ),
        ConfigKey(
            "index.interval.bytes",
            "int",
            4096,
            "Bytes of log between two index entries.",
            at_least(0),
        ),
        ConfigKey(
            "leader.replication.throttled.replicas",
            "list",
            [],
            "Replicas whose leader side is throttled: PARTITION:BROKER, or * for all.",
            _throttled_replicas,
            gaps=True,
        ),
        ConfigKey(
            "local.retention.bytes",
            "long",
            -2,
            "Local part of retention.bytes under tiered storage.",
            at_least(-2),
            no_effect=_NOT_TIERED,
        ),
        ConfigKey(
            "local.retention.ms",
            "long",
            -2,
            "Local part of retention.ms under tiered storage.",
            at_least(-2),
            no_effect=_NOT_TIERED,
        ),
        ConfigKey(
            "max.compaction.lag.ms",
            "long",
            LONG_MAX,
            "Age at which a record is compacted at the latest.",
            at_least(1),
        ),
        ConfigKey(
            "max.decompressed.message.bytes",
            "int",
            INT_MAX - 8,
            "Largest record of a compressed batch that is accepted, after decompression.",
            between(1, INT_MAX - 8),
        ),
        ConfigKey(
            "max.message.bytes",
            "int",
            1048588,
            "Largest record batch that is accepted.",
            at_least(0),
        ),
        ConfigKey(
            "message.timestamp.after.max.ms",
            "long",
            3_600_000,
            "How far a timestamp may lie in the future.",
            at_least(0),
        ),
        ConfigKey(
            "message.timestamp.before.max.ms",
            "long",
            LONG_MAX,
            "How far a timestamp may lie in the past.",
            at_least(0),
        ),
        ConfigKey(
            "message.timestamp.type",
            "string",
            "CreateTime",
            "Whether records keep the producer's timestamp or get the broker's.",
            one_of("CreateTime", "LogAppendTime"),
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            "double",
            0.5,
            "Share of a log that must be dirty before it is compacted.",
            between(0, 1),
        ),
        ConfigKey(
            "min.compaction.lag.ms",
            "long",
            0,
            "Age before which a record is not compacted.",
            at_least(0),
        ),
        ConfigKey(
            "min.insync.replicas",
            "int",
            1,
            "Smallest ISR with which records sent with acks=all are accepted.",
            at_least(1),
        ),
        ConfigKey(
            "preallocate", "boolean", False, "Whether the files of segments are preallocated."
        ),
        ConfigKey(
            "remote.copy.lag.bytes",
            "long",
            -1,
            "Bytes behind a segment after which it is copied to tiered storage; -1 is local.retention.bytes.",
            at_least(-1),
            no_effect=_NOT_TIERED,
        ),
        ConfigKey(
            "remote.copy.lag.ms",
            "long",
            0,
            "Age at which a segment is copied to tiered storage; -1 is local.retention.ms.",
            at_least(-1),
            no_effect=_NOT_TIERED,
        ),
        ConfigKey(
            "remote.log.copy.disable",
            "boolean",
            False,
            "Whether copying to tiered storage stops.",
            no_effect=_NOT_TIERED,
        ),
        ConfigKey(
            "remote.log.delete.on.disable",
            "boolean",
            False,
            "Whether tiered data is deleted when tiered storage is disabled.",
            no_effect=_NOT_TIERED,
        ),
        ConfigKey(
            "remote.storage.enable",
            "boolean",
            False,
            "Whether the topic uses tiered storage.",
            only_default=_NOT_TIERED,
        ),
        ConfigKey(
            "retention.bytes",
            "long",
            -1,
            "Size above which a partition's oldest segments are deleted; -1 for no limit.",
        ),
        ConfigKey(
            "retention.ms",
            "long",
            7 * DAY_MS,
            "Age at which segments are deleted; -1 for never.",
            at_least(-1),
        ),
        ConfigKey(
            "segment.bytes",
            "int",
            1 << 30,
            "Size at which a segment is rolled.",
            between(1 << 20, INT_MAX),
        ),
        ConfigKey(
            "segment.index.bytes", "int", 10 << 20, "Largest size of an index file.", at_least(4)
        ),
        ConfigKey(
            "segment.jitter.ms", "long", 0, "Largest random part of segment.ms.", at_least(0)
        ),
        ConfigKey(
            "segment.ms", "long", 7 * DAY_MS, "Age at which a segment is rolled.", at_least(1)
        ),
        ConfigKey(
            "unclean.leader.election.enable",
            "boolean",
            False,
            "Whether a replica outside the ISR may be elected leader, which may lose records.",
        ),
    )
)


class ServerSynonym(NamedTuple):
    """A server key that supplies the default of a topic key; `factor` converts it to the topic key's unit."""

    key: str
    factor: int = 1


# The server keys that supply the default of a topic key. The first one that is set is used.
SERVER_SYNONYMS: Mapping[str, tuple[ServerSynonym, ...]] = {
    "cleanup.policy": (ServerSynonym("log.cleanup.policy"),),
    "compression.type": (ServerSynonym("compression.type"),),
    "compression.gzip.level": (ServerSynonym("compression.gzip.level"),),
    "compression.lz4.level": (ServerSynonym("compression.lz4.level"),),
    "compression.zstd.level": (ServerSynonym("compression.zstd.level"),),
    "delete.retention.ms": (ServerSynonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (ServerSynonym("log.segment.delete.delay.ms"),),
    "flush.messages": (ServerSynonym("log.flush.interval.messages"),),
    "flush.ms": (
        ServerSynonym("log.flush.interval.ms"),
        ServerSynonym("log.flush.scheduler.interval.ms"),
    ),
    "index.interval.bytes": (ServerSynonym("log.index.interval.bytes"),),
    "local.retention.bytes": (ServerSynonym("log.local.retention.bytes"),),
    "local.retention.ms": (ServerSynonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (ServerSynonym("log.cleaner.max.compaction.lag.ms"),),
    "max.decompressed.message.bytes": (ServerSynonym("max.decompressed.message.bytes"),),
    "max.message.bytes": (ServerSynonym("message.max.bytes"),),
    "message.timestamp.after.max.ms": (ServerSynonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (ServerSynonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (ServerSynonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (ServerSynonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (ServerSynonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (ServerSynonym("min.insync.replicas"),),
    "preallocate": (ServerSynonym("log.preallocate"),),
    "remote.copy.lag.bytes": (ServerSynonym("log.remote.copy.lag.bytes"),),
    "remote.copy.lag.ms": (ServerSynonym("log.remote.copy.lag.ms"),),
    "retention.bytes": (ServerSynonym("log.retention.bytes"),),
    "retention.ms": (
        ServerSynonym("log.retention.ms"),
        ServerSynonym("log.retention.minutes", 60_000),
        ServerSynonym("log.retention.hours", 3_600_000),
    ),
    "segment.bytes": (ServerSynonym("log.segment.bytes"),),
    "segment.index.bytes": (ServerSynonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (
        ServerSynonym("log.roll.jitter.ms"),
        ServerSynonym("log.roll.jitter.hours", 3_600_000),
    ),
    "segment.ms": (ServerSynonym("log.roll.ms"), ServerSynonym("log.roll.hours", 3_600_000)),
    "unclean.leader.election.enable": (ServerSynonym("unclean.leader.election.enable"),),
}


def topic_default(server: ServerConfig, key: str) -> Any:
    """Returns the value for a topic that does not set the key."""
    for server_key, factor in SERVER_SYNONYMS.get(key, ()):
        value = server.get(server_key)
        if value is not None:
            return value * factor if factor != 1 else value
    return TOPIC_CONFIGS[key].default


def topic_value(server: ServerConfig, overrides: Mapping[str, str], key: str) -> Any:
    """Returns the effective value for a topic with these overrides (texts as in the metadata log)."""
    text = overrides.get(key)
    if text is None:
        return topic_default(server, key)
    try:
        return TOPIC_CONFIGS[key].parse_stored(text)
    except ConfigError:
        # A log written by Kafka may have values that we would refuse; the partition must open anyway.
        return topic_default(server, key)


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """Raises ConfigError for an unknown key, an invalid value, or values that contradict each other."""
    for key, text in configs.items():
        if key not in TOPIC_CONFIGS:
            raise ConfigError(
                key, text, "unknown config of a topic", answer=f"Unknown topic config name: {key}"
            )
        if key == "remote.storage.enable" and text.strip().lower() == "true":
            raise ConfigError(
                key,
                text,
                _NOT_TIERED,
                answer="Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage.",
            )
        TOPIC_CONFIGS[key].parse(text)
    low, high = (TOPIC_CONFIGS[k].parse(configs[k]) if k in configs else None for k in _LAGS)
    if low is not None and high is not None and low > high:
        raise ConfigError(
            _LAGS[0],
            low,
            f"must not be above {_LAGS[1]} ({high})",
            answer=f"conflict topic config setting {_LAGS[0]} ({low}) > {_LAGS[1]} ({high})",
        )


_LAGS = ("min.compaction.lag.ms", "max.compaction.lag.ms")
