"""The broker's place in the metadata quorum: an observer with its log on disk, or the controller's own replica beside it.

Source: `KafkaRaftManager`, `SharedServer` of Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from log.config import LogConfig
from log.directory import CLUSTER_METADATA, LogDirectory
from quorum.config.server import ServerConfig
from quorum.metadata.loader import MetadataLoader
from quorum.metadata.records import image_to_records
from quorum.metadata_log import MetadataLog
from quorum.node import NodeSettings, QuorumNode
from quorum.raft.types import Identity, Peer, Timeouts
from quorum.runtime.group_commit import GroupCommit
from quorum.snapshot_files import SnapshotFiles
from quorum.snapshots import SnapshotContent, SnapshotPolicy

# Ids of bootstrap servers count down from here; -1 is nobody.
FIRST_BOOTSTRAP_ID = -2


@dataclass(frozen=True, slots=True)
class QuorumAccess:
    """`node` follows the quorum and `loader` turns its log into images.

    `owned`: the broker runs the node; in a combined process the controller does, and goes last.
    """

    node: QuorumNode
    loader: MetadataLoader
    owned: bool


def open_observer(
    config: ServerConfig, directory: LogDirectory, group_commit: GroupCommit
) -> QuorumAccess:
    """An observer whose log lies in `directory`; opening it reads what an earlier process left."""
    topic, index = CLUSTER_METADATA
    log_config = LogConfig(
        segment_bytes=config["metadata.log.segment.bytes"],
        segment_ms=config["metadata.log.segment.ms"],
    )
    partition_log = directory.create_log(topic, index, None, log_config)
    metadata_log = MetadataLog(partition_log, SnapshotFiles(partition_log.directory))
    loader = MetadataLoader()
    node = QuorumNode(
        NodeSettings(
            identity_of(config, directory),
            timeouts_of(config),
            snapshots_of(config),
            client_id=f"broker-{config.node_id}-quorum",
        ),
        metadata_log,
        loader,
        directory=partition_log.directory,
        group_commit=group_commit,
    )
    node.snapshotter.source = lambda: _snapshot_of(loader)
    return QuorumAccess(node, loader, owned=True)


def identity_of(config: ServerConfig, directory: LogDirectory) -> Identity:
    """Who observes: under the broker's id, so that `kafka-metadata-quorum` lists it."""
    meta = directory.meta_properties
    return Identity(
        node_id=config.node_id,
        directory_id=meta.directory_id,
        cluster_id=meta.cluster_id,
        voters={voter.id: Peer(voter.id, voter.host, voter.port) for voter in config.voters},
        bootstrap=tuple(
            Peer(FIRST_BOOTSTRAP_ID - number, host, port)
            for number, (host, port) in enumerate(config.quorum_bootstrap)
        ),
    )


def timeouts_of(config: ServerConfig) -> Timeouts:
    """Kafka's controller.quorum.* keys in seconds."""
    return Timeouts(
        election=config["controller.quorum.election.timeout.ms"] / 1000,
        fetch=config["controller.quorum.fetch.timeout.ms"] / 1000,
        election_backoff_max=config["controller.quorum.election.backoff.max.ms"] / 1000,
        request=config["controller.quorum.request.timeout.ms"] / 1000,
        retry_backoff=config["controller.quorum.retry.backoff.ms"] / 1000,
    )


def snapshots_of(config: ServerConfig) -> SnapshotPolicy:
    """When the observer writes snapshots of its own."""
    return SnapshotPolicy(
        bytes_between=config["metadata.log.max.record.bytes.between.snapshots"],
        seconds_between=config["metadata.log.max.snapshot.interval.ms"] / 1000,
        retention_bytes=config["metadata.max.retention.bytes"],
    )


def _snapshot_of(loader: MetadataLoader) -> SnapshotContent:
    image = loader.image
    return SnapshotContent(
        end_offset=image.provenance.offset + 1,
        epoch=image.provenance.epoch,
        appended_at_ms=image.provenance.timestamp_ms,
        records=image_to_records(image),
        metadata_version=image.features.metadata_version,
    )
