"""The replication throttles that this broker applies to itself, from the metadata (KIP-73).

Source: `ConfigHandler` (`TopicConfigHandler`, `BrokerConfigHandler`) of Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from trimaran.node.config.server import ServerConfig
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import BROKER_RESOURCE, NO_LEADER, TOPIC_RESOURCE, MetadataImage
from trimaran.quorum.metadata.loader import Manifest
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.identity import BrokerId
from trimaran.wire.transport.metrics.rate import Windows

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


def _throttle() -> ReplicationThrottle:
    return ReplicationThrottle(Windows())


@dataclass(slots=True)
class ReplicationThrottles:
    """A `Publisher` of replication throttles. `leader` limits the bytes sent to followers, `follower` the bytes fetched
    from leaders, and `moves` the bytes copied between this broker's directories, for all replicas.
    """

    configs: NodeConfigs | None = None
    node_id: BrokerId = NO_LEADER
    leader: ReplicationThrottle = field(default_factory=_throttle)
    follower: ReplicationThrottle = field(default_factory=_throttle)
    moves: ReplicationThrottle = field(default_factory=_throttle)

    @classmethod
    def of(cls, config: ServerConfig, configs: NodeConfigs) -> Self:
        """Returns throttles without limits; the metadata sets these later."""
        replication = Windows(
            config["replication.quota.window.num"], config["replication.quota.window.size.seconds"]
        )
        moves = Windows(
            config["alter.log.dirs.replication.quota.window.num"],
            config["alter.log.dirs.replication.quota.window.size.seconds"],
        )
        return cls(
            configs,
            config.broker_id,
            ReplicationThrottle(replication),
            ReplicationThrottle(replication),
            ReplicationThrottle(moves),
        )

    def publish(self, delta: MetadataDelta, _image: MetadataImage, _manifest: Manifest) -> None:
        for (kind, resource), changes in delta.configs.changed.items():
            if kind == TOPIC_RESOURCE:
                self._set_replicas(resource, changes)
            elif kind == BROKER_RESOURCE:
                self._set_rates()

    def _set_replicas(self, topic: str, changes: Mapping[str, str | None]) -> None:
        for key, throttle in ((LEADER_REPLICAS, self.leader), (FOLLOWER_REPLICAS, self.follower)):
            if key in changes:
                throttle.name_replicas(topic, changes[key] or "", self.node_id)

    def _set_rates(self) -> None:
        if self.configs is None:
            return
        now = self.configs.now
        self.leader.bound = now("leader.replication.throttled.rate")
        self.follower.bound = now("follower.replication.throttled.rate")
        self.moves.bound = now("replica.alter.log.dirs.io.max.bytes.per.second")
