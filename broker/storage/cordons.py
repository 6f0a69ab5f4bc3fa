"""Which log directories of this broker take no new replicas: `cordoned.log.dirs` (KIP-1066), as the broker's file or
its dynamic config says now.

Source: `KafkaConfig.cordonedLogDirs`, `DynamicLogConfig` of Kafka. Replicas that are there stay, and are served. The
controller, told with every heartbeat, gives nothing to a broker whose directories are all cordoned.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata import versions
from trimaran.quorum.serving.node_configs import NodeConfigs


class Cordons:
    """Nothing is cached: callers send a heartbeat or make a replica, which costs far more."""

    def __init__(
        self, config: ServerConfig, configs: NodeConfigs, metadata: BrokerMetadata
    ) -> None:
        self._config = config
        self._configs = configs
        self._metadata = metadata

    def paths(self) -> Collection[Path]:
        return self._config.cordoned_directories(self._configs.now("cordoned.log.dirs"))

    @property
    def are_told(self) -> bool:
        """Whether the cluster's `metadata.version` knows of cordoned directories."""
        return self._metadata.image.features.metadata_version >= versions.CORDONED_LOG_DIRS
