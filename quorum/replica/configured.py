"""A node's replica of the metadata log, built from its configuration: identity, timeouts, snapshots, the log itself.

Used by controllers and brokers. Source: Kafka's `KafkaRaftManager`, `QuorumConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.formatting.storage import BOOTSTRAP
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.metadata.records import image_to_records
from trimaran.quorum.raft.types import Identity, Peer, ReplicaKey, Timeouts, VoterEndpoint
from trimaran.quorum.raft.voters import QuorumHistory
from trimaran.quorum.raft_log.metadata_log import MetadataLog, open_metadata_log
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.supported_levels import check_directory
from trimaran.quorum.replica.snapshot_writer import SnapshotContent, SnapshotPolicy
from trimaran.wire.identity import LeaderEpoch, NodeId, Offset
from trimaran.wire.text.endpoint import Endpoint

# Ids of bootstrap servers count down from here; -1 means no node.
FIRST_BOOTSTRAP_ID = -2
# Kafka's wait of a fetch without new records. An idle leader must respond several times within the fetch timeout,
# whatever its value; otherwise followers would assume that it has failed.
FETCH_WAIT_SECONDS_MAX = 0.5
RESPONSES_PER_TIMEOUT = 4
# A response is read, checked and appended in one step of the loop: this takes about 20 ms for 8 MiB, the largest
# possible batch of metadata.
RESPONSE_BYTES_MAX = 8 << 20


def identity_of(
    config: ServerConfig, directory: LogDirectory, endpoints: Sequence[Endpoint] = ()
) -> Identity:
    """Returns our identity in the quorum; `endpoints` are a voter's advertised listeners."""
    meta = directory.meta_properties
    return Identity(
        node_id=config.node_id,
        directory_id=meta.directory_id,
        cluster_id=meta.cluster_id,
        voters={voter.id: Peer(voter.id, voter.host, voter.port) for voter in config.voters},
        bootstrap=tuple(
            Peer(NodeId(FIRST_BOOTSTRAP_ID - number), host, port)
            for number, (host, port) in enumerate(config.quorum_bootstrap)
        ),
        endpoints=_default_first(config, endpoints),
        listener=config["controller.listener.names"][0].upper(),
        is_controller=config.is_controller,
        auto_join=config["controller.quorum.auto.join.enable"],
    )


def _default_first(
    config: ServerConfig, endpoints: Sequence[Endpoint]
) -> tuple[VoterEndpoint, ...]:
    """Returns the endpoints in the order of `controller.listener.names`: voters connect to each other by the first.
    Names are upper-case, as Kafka writes them.
    """
    rank = {name: n for n, name in enumerate(config["controller.listener.names"])}
    ordered = sorted(endpoints, key=lambda endpoint: rank.get(endpoint.name, len(rank)))
    return tuple(VoterEndpoint(e.name.upper(), e.host, e.port) for e in ordered)


def timeouts_of(config: ServerConfig) -> Timeouts:
    """Returns the timeouts of Kafka's controller.quorum.* keys, in seconds."""
    fetch = config["controller.quorum.fetch.timeout.ms"] / 1000
    return Timeouts(
        election=config["controller.quorum.election.timeout.ms"] / 1000,
        fetch=fetch,
        fetch_max_wait=min(FETCH_WAIT_SECONDS_MAX, fetch / RESPONSES_PER_TIMEOUT),
        election_backoff_max=config["controller.quorum.election.backoff.max.ms"] / 1000,
        request=config["controller.quorum.request.timeout.ms"] / 1000,
        retry_backoff=config["controller.quorum.retry.backoff.ms"] / 1000,
        append_linger=config["controller.quorum.append.linger.ms"] / 1000,
        fetch_max_bytes=min(config["controller.quorum.fetch.max.bytes"], RESPONSE_BYTES_MAX),
        snapshot_max_bytes=min(
            config["controller.quorum.fetch.snapshot.max.bytes"], RESPONSE_BYTES_MAX
        ),
    )


def snapshots_of(config: ServerConfig) -> SnapshotPolicy:
    """Returns the policy for writing and keeping snapshots."""
    return SnapshotPolicy(
        bytes_between=config["metadata.log.max.record.bytes.between.snapshots"],
        seconds_between=config["metadata.log.max.snapshot.interval.ms"] / 1000,
        retention_bytes=config["metadata.max.retention.bytes"],
        retention_ms=config["metadata.max.retention.ms"],
    )


def check_metadata(config: ServerConfig) -> None:
    """Checks that the metadata log is where the configuration says, and that all finalized levels in it are known;
    called before the directory is opened, which changes it. Blocks.

    Raises:
        MetaPropertiesError: another log directory has a metadata log: the node would begin with an empty one, and a
            lone voter would lead an empty cluster. Kafka refuses it, too (`KafkaRaftServer.initializeLogDirs`).
        MetadataTooNew: a level is above ours; the message names it.
    """
    path = config.metadata_directory
    for other in config.log_directories:
        with suppress(OSError):  # the error is reported when the directory is opened
            if (other / DIRECTORY_NAME).exists() and not other.samefile(path):
                raise MetaPropertiesError(
                    f"{other} holds a metadata log, and {path} is configured to"
                )
    check_directory(path / DIRECTORY_NAME, path / BOOTSTRAP)


def open_log(config: ServerConfig, directory: LogDirectory) -> MetadataLog:
    """Returns the recovered metadata log in `directory`; creates it if there is none. Blocks.

    Raises:
        SnapshotDamaged, LogDamaged: a part of the log cannot be read, and there are no other voters from which it can
        be fetched.
    """
    key = ReplicaKey(config.node_id, directory.meta_properties.directory_id)
    return open_metadata_log(
        directory,
        LogConfig(
            segment_bytes=config["metadata.log.segment.bytes"],
            segment_ms=config["metadata.log.segment.ms"],
        ),
        lambda history: _has_other_voters(config, history, key),
    )


def _has_other_voters(config: ServerConfig, history: QuorumHistory, key: ReplicaKey) -> bool:
    """Returns whether there are other voters; if no record names any, the other bootstrap servers are assumed to know
    them.
    """
    if history.is_dynamic:
        return bool(history.voters.others(key))
    if config.voters:
        return any(voter.id != config.node_id for voter in config.voters)
    own = {
        (advertised_controller_listener.host, advertised_controller_listener.port)
        for advertised_controller_listener in config.advertised_controller_listeners
    }
    return bool(set(config.quorum_bootstrap) - own)


def snapshot_of(loader: MetadataLoader) -> SnapshotContent | None:
    """Returns the newest image as a snapshot; None while a transaction of records is open, which may have begun inside
    a batch.
    """
    if loader.in_transaction:
        return None
    image = loader.image
    return SnapshotContent(
        end_offset=Offset(image.provenance.offset + 1),
        epoch=LeaderEpoch(image.provenance.epoch),
        appended_at_ms=image.provenance.timestamp_ms,
        records=image_to_records(image),
        metadata_version=image.features.metadata_version,
    )
