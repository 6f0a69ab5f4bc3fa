"""The parts of a broker, and the context of each family of handlers.

One function creates all families from the configuration, the metadata and the `Ports`. The broker process, the tests
and the simulation all create their brokers here. Source: `BrokerServer` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import trio

from trimaran.broker.background.directory_assignments import DirectoryAssignments
from trimaran.broker.background.directory_moves import DirectoryMoves
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.channels.broker_connector import Connector
from trimaran.broker.channels.forwarding import Forwarder
from trimaran.broker.fetching.latest_offsets import LatestOffsets
from trimaran.broker.fetching.replica_selection import SELECTORS
from trimaran.broker.fetching.sessions import FetchSessions
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from trimaran.broker.handlers.context import (
    AdminContext,
    BrokerLimits,
    Contexts,
    DataContext,
    DirectoryContext,
    GroupContext,
    ShareContext,
    SharingContext,
    TransactionContext,
)
from trimaran.broker.metadata.client_quotas import ClientQuotas
from trimaran.broker.metadata.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.read_index import ReadIndex
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.broker.metadata.topic_creation import TopicCreation
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.services import Services
from trimaran.broker.process.ports import Ports
from trimaran.broker.process.publisher import BrokerPublisher
from trimaran.broker.producing.producer_ids import ProducerIdManager
from trimaran.broker.replication.fetch_client import FetchSettings
from trimaran.broker.replication.fetchers import Fetchers
from trimaran.broker.share_state.coordinator import ShareCoordinator
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.broker.share_state.persister import StatePersister
from trimaran.broker.share_state.states import ShareStates
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.dead_letter_queues import DeadLetterQueues
from trimaran.broker.sharing.share_partitions import SharePartitions
from trimaran.broker.storage.broker_storage import Cordons
from trimaran.broker.telemetry.clients import ClientMetrics
from trimaran.broker.transactions.coordinator import TransactionCoordinator
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.marking import Marking
from trimaran.broker.transactions.verification import TransactionVerifier
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.identity import BrokerEpoch
from trimaran.wire.transport.metrics.rate import Windows

# Clients only process complete responses. Measured with librdkafka at 1 KiB per record: 950 to 1,050 MB/s with
# responses of up to 8 or 16 MiB, which stay in the processor's cache, and 600 to 850 MB/s with 50 MB.
RESPONSE_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Cluster:
    """The metadata as seen by the parts of a broker: the image, and the settings that follow from the configuration and
    the image.
    """

    config: ServerConfig
    metadata: BrokerMetadata
    configs: NodeConfigs
    settings: TopicSettingsSource
    throttles: ReplicationThrottles
    cordons: Cordons

    @classmethod
    def of(cls, config: ServerConfig, metadata: BrokerMetadata) -> Self:
        configs = NodeConfigs(config, lambda: metadata.image.configs)
        return cls(
            config,
            metadata,
            configs,
            TopicSettingsSource(config, metadata, config.broker_id),
            ReplicationThrottles.of(config, configs),
            Cordons(config, configs, metadata),
        )


@dataclass(frozen=True, slots=True)
class Data:
    """The replicas of this broker, and the parts that keep them in step with the metadata."""

    partitions: Partitions
    assignments: DirectoryAssignments
    moves: DirectoryMoves
    publisher: BrokerPublisher
    quotas: ClientQuotas


@dataclass(frozen=True, slots=True)
class Transactions:
    """The parts for transactions; `run` must be running before requests arrive. Markers have their own connections,
    because they wait for replicas.
    """

    coordinator: TransactionCoordinator
    verifier: TransactionVerifier
    markers: MarkerWriter
    marker_channels: Channels
    verifier_channels: Channels

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.marker_channels.run)
            await nursery.start(self.verifier_channels.run)
            await nursery.start(self.markers.run)
            await nursery.start(self.verifier.run)
            await nursery.start(self.coordinator.runtime.run)
            task_status.started()


@dataclass(frozen=True, slots=True)
class ShareParts:
    """The parts for share groups; `run` must be running before requests arrive. Dead letters have their own
    connections, because they wait for replicas.
    """

    coordinator: ShareCoordinator
    states: StatePersister
    channels: Channels
    letter_channels: Channels
    sharing: SharePartitions

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.channels.run)
            await nursery.start(self.letter_channels.run)
            await nursery.start(self.states.run)
            await nursery.start(self.sharing.run)
            await nursery.start(self.coordinator.runtime.run)
            task_status.started()


@dataclass(frozen=True, slots=True)
class Families:
    """A broker without its connection to the cluster and its listeners."""

    data: Data
    groups: GroupCoordinator
    transactions: Transactions
    shares: ShareParts
    contexts: Contexts


def families(
    cluster: Cluster,
    ports: Ports,
    cluster_id: str,
    *,
    authorizer: Authorizer | None = None,
    zookeeper_offsets: ZooKeeperOffsets | None = None,
    client_metrics: ClientMetrics | None = None,
) -> Families:
    """Creates all parts that serve requests, without starting them."""
    config, metadata = cluster.config, cluster.metadata
    data = _data(cluster, ports)
    topic_creation = TopicCreation(ports.controller, metadata, config)
    shares = _shares(cluster, ports, data.partitions, topic_creation)
    groups = _groups(cluster, data.partitions, shares.states)
    producer_ids = ProducerIdManager(ports.controller, config.broker_id, ports.broker_epoch)
    transacting = _transactions(cluster, ports, data.partitions, groups, producer_ids)
    limits = BrokerLimits(fetch_bytes_max=min(config["fetch.max.bytes"], RESPONSE_BYTES_MAX))
    contexts = Contexts(
        data=_data_context(cluster, ports, data, transacting.verifier, limits, authorizer),
        sharing=SharingContext(
            config=config,
            metadata=metadata,
            partitions=data.partitions,
            sharing=shares.sharing,
            limits=limits,
            quotas=data.quotas,
            authorizer=authorizer,
        ),
        groups=GroupContext(
            config=config,
            metadata=metadata,
            groups=groups,
            transactions=transacting.coordinator,
            verifier=transacting.verifier,
            topic_creation=topic_creation,
            shares=shares.coordinator,
            share_states=shares.states,
            latest_offsets=_latest_offsets(cluster, data.partitions, shares.channels),
            zookeeper_offsets=zookeeper_offsets,
            authorizer=authorizer,
        ),
        transactions=TransactionContext(
            metadata=metadata,
            partitions=data.partitions,
            groups=groups,
            transactions=transacting.coordinator,
            producer_ids=producer_ids,
            topic_creation=topic_creation,
            now_ms=ports.now_ms,
            authorizer=authorizer,
        ),
        shares=ShareContext(shares=shares.coordinator, authorizer=authorizer),
        directories=DirectoryContext(
            node_id=config.broker_id,
            metadata=metadata,
            partitions=data.partitions,
            directories=ports.directories,
            moves=data.moves,
            authorizer=authorizer,
        ),
        administration=AdminContext(
            config=config,
            node_id=config.broker_id,
            cluster_id=cluster_id,
            metadata=metadata,
            forwarder=_forwarder(cluster, ports),
            topic_creation=topic_creation,
            client_metrics=client_metrics,
            kraft_version=ports.kraft_version,
            authorizer=authorizer,
        ),
    )
    return Families(data, groups, transacting, shares, contexts)


def _data_context(
    cluster: Cluster,
    ports: Ports,
    data: Data,
    verifier: TransactionVerifier,
    limits: BrokerLimits,
    authorizer: Authorizer | None,
) -> DataContext:
    config = cluster.config
    return DataContext(
        metadata=cluster.metadata,
        partitions=data.partitions,
        fetch_sessions=FetchSessions(config["max.incremental.fetch.session.cache.slots"]),
        limits=limits,
        replica_selector=SELECTORS.get(config["replica.selector.class"]),
        quotas=data.quotas,
        throttles=cluster.throttles,
        verifier=verifier,
        now_ms=ports.now_ms,
        authorizer=authorizer,
    )


def _forwarder(cluster: Cluster, ports: Ports) -> Forwarder:
    reading = ReadIndex(ports.controller, cluster.metadata, ports.quorum_epoch)
    seconds = cluster.config["request.timeout.ms"] / 1000
    return Forwarder(ports.controller, seconds, reading.reach)


def _latest_offsets(cluster: Cluster, partitions: Partitions, channels: Channels) -> LatestOffsets:
    config = cluster.config
    seconds = config["request.timeout.ms"] / 1000
    return LatestOffsets(config.broker_id, partitions, channels, cluster.metadata, seconds)


def _data(cluster: Cluster, ports: Ports) -> Data:
    config, directories = cluster.config, ports.directories
    services = Services(
        node_id=config.broker_id,
        directories=directories,
        settings=cluster.settings,
        commit=ports.durability,
        isr_changes=ports.isr_changes,
        metadata=cluster.metadata,
        broker_epoch=ports.broker_epoch,
        lag_seconds_max=config["replica.lag.time.max.ms"] / 1000,
        now=ports.now,
        now_ms=ports.now_ms,
    )
    partitions = Partitions(services, ports.fetchers, directories.high_watermark)
    assignments = DirectoryAssignments(ports.controller, config.broker_id, ports.broker_epoch)
    directories.on_placed = assignments.assign
    directories.cordoned = cluster.cordons.paths
    return Data(
        partitions,
        assignments,
        DirectoryMoves(directories, partitions, cluster.throttles.moves),
        BrokerPublisher(cluster.metadata, partitions, cluster.settings, directories, ports.report),
        ClientQuotas(Windows(config["quota.window.num"], config["quota.window.size.seconds"])),
    )


def _groups(
    cluster: Cluster, partitions: Partitions, share_states: ShareStates
) -> GroupCoordinator:
    config, metadata = cluster.config, cluster.metadata
    groups = GroupCoordinator(
        GroupLimits.of(config),
        metadata,
        {
            kind.name: kind.settings(config, lambda: metadata.image.configs)
            for kind in KINDS
            if kind.settings is not None
        },
        share_states=share_states,
    )
    partitions.listen(CONSUMER_OFFSETS, groups.runtime)
    return groups


def _transactions(
    cluster: Cluster,
    ports: Ports,
    partitions: Partitions,
    groups: GroupCoordinator,
    producer_ids: ProducerIdManager,
) -> Transactions:
    config, metadata = cluster.config, cluster.metadata
    seconds = config["request.timeout.ms"] / 1000
    marker_channels, verifier_channels = map(ports.open_channels, ("markers", "transactions"))
    marking = Marking(partitions, groups.complete_transaction, ports.now_ms)
    markers = MarkerWriter(config.broker_id, marking, marker_channels, metadata, seconds)
    limits = TransactionLimits.of(config)
    coordinator = TransactionCoordinator(limits, metadata, producer_ids, markers)
    verifier = TransactionVerifier(
        *(config.broker_id, coordinator, verifier_channels, metadata, seconds),
        is_enabled=lambda: bool(cluster.configs.now("transaction.partition.verification.enable")),
    )
    partitions.listen(TRANSACTION_STATE, coordinator.runtime)
    return Transactions(coordinator, verifier, markers, marker_channels, verifier_channels)


def _shares(
    cluster: Cluster, ports: Ports, partitions: Partitions, topic_creation: TopicCreation
) -> ShareParts:
    config, metadata = cluster.config, cluster.metadata
    channels = ports.open_channels("shares")
    coordinator = ShareCoordinator(ShareLimits.of(config), metadata)
    seconds = config["request.timeout.ms"] / 1000
    states = StatePersister(
        config.broker_id, coordinator, channels, metadata, topic_creation, seconds
    )
    partitions.listen(SHARE_GROUP_STATE, coordinator.runtime)
    letter_channels = ports.open_channels("dead-letters")
    counts = ShareCounts()
    queues = DeadLetterQueues(
        *(letter_channels, ports.controller, metadata, cluster.configs, cluster.settings),
        *(ports.now_ms, counts),
    )
    sharing = SharePartitions.of(
        config, lambda: metadata.image.configs, states, ports.now, ports.now_ms, queues, counts
    )
    return ShareParts(coordinator, states, channels, letter_channels, sharing)


def fetchers_of(
    cluster: Cluster, connector: Connector, broker_epoch: Callable[[], BrokerEpoch]
) -> Fetchers:
    """Returns the fetchers with the configured settings."""
    config = cluster.config
    settings = FetchSettings(
        replica_id=config.broker_id,
        broker_epoch=broker_epoch,
        wait_max_ms=config["replica.fetch.wait.max.ms"],
        min_bytes=config["replica.fetch.min.bytes"],
        partition_bytes_max=config["replica.fetch.max.bytes"],
        response_bytes_max=config["replica.fetch.response.max.bytes"],
        backoff_seconds_max=config["replica.fetch.backoff.ms"] / 1000,
        response_seconds=config["replica.socket.timeout.ms"] / 1000,
        throttle=cluster.throttles.follower,
    )
    return Fetchers(connector, settings)
