"""Which log directories of this broker take no new replicas: `cordoned.log.dirs` (KIP-1066), as the broker's file or its dynamic config says now.

Source: `KafkaConfig.cordonedLogDirs`, `DynamicLogConfig` of Kafka. Replicas that are there stay, and are served. The controller, told with
every heartbeat, gives nothing to a broker whose directories are all cordoned.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from broker.metadata.metadata_cache import BrokerMetadata
from node.config.server import ServerConfig
from node.config.server_keys import SERVER_CONFIGS
from quorum.controller.config_checks import CORDONED
from quorum.metadata import versions
from quorum.metadata.image import BROKER_RESOURCE


class Cordons:
    """Nothing is kept: who asks sends a heartbeat or makes a replica, which costs far more."""

    def __init__(self, config: ServerConfig, metadata: BrokerMetadata) -> None:
        self._config = config
        self._metadata = metadata

    def paths(self) -> Collection[Path]:
        dynamic = self._metadata.image.configs.of(BROKER_RESOURCE, str(self._config.node_id))
        text = dynamic.get(CORDONED)
        names = self._config[CORDONED] if text is None else SERVER_CONFIGS[CORDONED].parse(text)
        return self._config.cordoned_directories(names)

    @property
    def are_told(self) -> bool:
        """Whether the cluster's `metadata.version` knows of cordoned directories."""
        return self._metadata.image.features.metadata_version >= versions.CORDONED_LOG_DIRS
