"""The broker's access to the metadata quorum: an observer with its log on disk, or the replica of a controller in the
same process.

Source: `KafkaRaftManager`, `SharedServer` of Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.log.directories.directory import LogDirectory
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.replica.configured import (
    identity_of,
    open_log,
    snapshot_of,
    snapshots_of,
    timeouts_of,
)
from trimaran.quorum.replica.node import NodeSettings, QuorumNode
from trimaran.wire.security.listener import ClientSecurity


@dataclass(frozen=True, slots=True)
class QuorumAccess:
    """The quorum node and its loader: `node` follows the quorum, and `loader` turns its log into images.

    `owned` is True if the broker runs the node; in a combined process the controller runs it, and stops last.
    """

    node: QuorumNode
    loader: MetadataLoader
    owned: bool


def open_observer(
    config: ServerConfig,
    directory: LogDirectory,
    group_commit: GroupCommit,
    security: ClientSecurity,
) -> QuorumAccess:
    """Opens an observer with the broker's id and its log in `directory`; reads the log of a previous run."""
    metadata_log = open_log(config, directory)
    loader = MetadataLoader()
    node = QuorumNode(
        NodeSettings(
            identity_of(config, directory),
            timeouts_of(config),
            snapshots_of(config),
            client_id=f"broker-{config.node_id}-quorum",
            security=security,
        ),
        metadata_log,
        loader,
        directory=metadata_log.log.directory,
        group_commit=group_commit,
    )
    node.snapshotter.source = lambda: snapshot_of(loader)
    return QuorumAccess(node, loader, owned=True)
