"""The configuration of the share coordinator: Kafka's keys `share.coordinator.*`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimaran.node.config.server import ServerConfig


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """The limits of the share coordinator; the defaults are those of Kafka 4.4.

    The intervals are those of the search for redundant records, and of snapshots of share partitions that are not
    written to.
    """

    updates_per_snapshot: int = 500
    prune_interval_ms: int = 300_000
    cold_snapshot_interval_ms: int = 300_000
    load_buffer_bytes: int = 5 << 20
    partition_count: int = 50
    commit_timeout_ms: int = 5_000

    @classmethod
    def of(cls, config: ServerConfig) -> ShareLimits:
        """Reads the limits from Kafka's keys."""
        return cls(
            updates_per_snapshot=config["share.coordinator.snapshot.update.records.per.snapshot"],
            prune_interval_ms=config["share.coordinator.state.topic.prune.interval.ms"],
            cold_snapshot_interval_ms=config[
                "share.coordinator.cold.partition.snapshot.interval.ms"
            ],
            load_buffer_bytes=config["share.coordinator.load.buffer.size"],
            partition_count=config["share.coordinator.state.topic.num.partitions"],
            commit_timeout_ms=config["share.coordinator.write.timeout.ms"],
        )
