"""The storage of a broker: its log directories, each with its own group commit, and the directory of the metadata log.

Source: `KafkaRaftServer.initializeLogDirs`, `LogManager.createAndValidateLogDirs` of Kafka. A directory that cannot be
read at startup is skipped, unless it has the metadata log; a directory that is not formatted, or belongs to another
node, is a configuration error.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimaran.broker import events
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.log.durability.group_commit import Durability, GroupCommit
from trimaran.log.durability.health import StorageFailure
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.metadata import versions
from trimaran.quorum.replica.configured import check_metadata
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, Offset, TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Storage:
    """The opened storage. `shared` is the directory of a controller in the same process, which closes it after the
    broker.
    """

    directories: LogDirectories
    commits: Mapping[LogDirectory, GroupCommit]  # for the logs of partitions
    metadata_commit: GroupCommit
    durability: Durability
    shared: LogDirectory | None

    @property
    def metadata(self) -> LogDirectory:
        return self.directories.metadata

    async def commit(self, directory: LogDirectory) -> None:
        """Runs the group commit of one directory until the directory fails; other directories continue."""
        with suppress(StorageFailure):
            await self.commits[directory].run()

    async def close(
        self, broker_epoch: BrokerEpoch | None, high_watermarks: Mapping[TopicPartition, Offset]
    ) -> None:
        """Flushes and closes everything that only the broker uses. A directory shared with a controller only gets its
        checkpoints.
        """
        if self.shared is not None and broker_epoch is not None:
            self.shared.broker_epoch = broker_epoch

        def close() -> None:
            self.directories.close(
                broker_epoch=broker_epoch, high_watermarks=high_watermarks, but=self.shared
            )

        await run_blocking(close)


def open_storage(config: ServerConfig, shared: LogDirectory | None) -> Storage:
    """Opens all configured directories; `shared` is already open.

    Raises:
        MetaPropertiesError, DirectoryLocked, MetadataTooNew: the reason why the broker cannot start.
        KafkaError: KAFKA_STORAGE_ERROR if the directory of the metadata log, or all other directories, cannot be read:
        the
            controller does not register a broker without a directory.
    """
    if shared is None:
        check_metadata(config)
    opened: dict[Path, LogDirectory] = {} if shared is None else {shared.path: shared}
    failed: dict[Path, str] = {}
    try:
        for path in dict.fromkeys([config.metadata_directory, *config.log_directories]):
            if path in opened:
                continue
            try:
                opened[path] = _open(path, config)
            except KafkaError as error:
                if path == config.metadata_directory:
                    raise
                events.LOG_DIRECTORY_OFFLINE.log(log, directory=path, error=error)
                failed[path] = str(error)
        metadata = opened[config.metadata_directory]
        _check(list(opened.values()), metadata)
        data = [opened[path] for path in config.log_directories if path in opened]
        if not data:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"none of the log directories can be read: {'; '.join(failed.values())}",
            )
        directories = LogDirectories(data, metadata=metadata, failed_at_start=failed)
    except BaseException:
        for directory in opened.values():
            if directory is not shared:
                directory.close(broker_epoch=None)
        raise
    fsync = config["trimaran.log.fsync"] == "commit"
    commits = {item: GroupCommit(item.health, fsync=fsync) for item in data}
    durability = Durability({item.health: commits[item] for item in data}, fsync=fsync)
    return Storage(directories, commits, GroupCommit(metadata.health), durability, shared)


def _open(path: Path, config: ServerConfig) -> LogDirectory:
    directory = LogDirectory(path, now_ms=now_ms)
    try:
        directory.meta_properties.check(path, cluster_id=None, node_id=config.node_id)
    except BaseException:
        directory.close(broker_epoch=None)
        raise
    return directory


def _check(directories: list[LogDirectory], metadata: LogDirectory) -> None:
    """Checks that all directories have the same cluster id and distinct directory ids. Raises MetaPropertiesError."""
    cluster_id = metadata.meta_properties.cluster_id
    ids: dict[bytes, Path] = {}
    for directory in directories:
        directory.meta_properties.check(directory.path, cluster_id=cluster_id, node_id=None)
        twin = ids.setdefault(directory.directory_id, directory.path)
        if twin != directory.path:
            raise MetaPropertiesError(
                f"{directory.path} and {twin} have the same directory.id: one is a copy of the other"
            )


class Cordons:
    """The log directories of this broker that take no new replicas: `cordoned.log.dirs` (KIP-1066), from the broker's
    file or its dynamic config.

    Existing replicas stay and are served. Every heartbeat reports the cordons, and the controller places no replica on
    a broker whose directories are all cordoned. Nothing is cached: callers send a heartbeat or create a replica, which
    costs far more. Source: `KafkaConfig.cordonedLogDirs`, `DynamicLogConfig` of Kafka.
    """

    def __init__(
        self, config: ServerConfig, configs: NodeConfigs, metadata: BrokerMetadata
    ) -> None:
        self._config = config
        self._configs = configs
        self._metadata = metadata

    def paths(self) -> Collection[Path]:
        return self._config.cordoned_directories(self._configs.now("cordoned.log.dirs"))

    @property
    def are_reported(self) -> bool:
        """Whether the cluster's `metadata.version` supports cordoned directories."""
        return self._metadata.image.features.metadata_version >= versions.CORDONED_LOG_DIRS
