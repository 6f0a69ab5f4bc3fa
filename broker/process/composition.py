"""The parts of a broker process and what each is given; `broker/process/server.py` starts and ends them. Source:
`BrokerServer`, `SharedServer` of Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import trio

from trimaran.broker.background.directory_assignments import DirectoryAssignments
from trimaran.broker.background.directory_moves import DirectoryMoves
from trimaran.broker.background.log_cleaner import CleanerSettings
from trimaran.broker.background.maintenance import Maintenance, MaintenanceTimes
from trimaran.broker.channels.broker_channel import ChannelLimits
from trimaran.broker.channels.broker_channels import BrokerChannels
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.broker.channels.controller_channel import ControllerChannel
from trimaran.broker.channels.forwarding import Forwarder
from trimaran.broker.fetching.replica_selection import SELECTORS
from trimaran.broker.fetching.sessions import FetchSessions
from trimaran.broker.groups.consumer.settings import ConfiguredGroups
from trimaran.broker.groups.coordinator import GroupCoordinator
from trimaran.broker.groups.limits import GroupLimits
from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from trimaran.broker.handlers.context import BrokerLimits, Context
from trimaran.broker.metadata.client_quotas import ClientQuotas
from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.metadata.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.broker.metadata.topic_creation import TopicCreation
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.broker.partitions.alter_partitions import AlterPartitions
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.services import Services
from trimaran.broker.process.advertised_listeners import advertised
from trimaran.broker.process.lifecycle import BrokerIdentity, Lifecycle, LifecycleTimes
from trimaran.broker.process.publisher import BrokerPublisher
from trimaran.broker.process.quorum_access import QuorumAccess, open_observer
from trimaran.broker.process.registration_tracker import RegistrationTracker
from trimaran.broker.process.transactions import Transactions, transactions
from trimaran.broker.producing.producer_ids import ProducerIds
from trimaran.broker.replication.fetch_client import FetchSettings
from trimaran.broker.replication.fetchers import Fetchers
from trimaran.broker.storage.broker_storage import Storage, open_storage
from trimaran.broker.storage.cordons import Cordons
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.telemetry import otlp
from trimaran.broker.telemetry.clients import ClientMetrics
from trimaran.broker.telemetry.received import ReceivedMetrics
from trimaran.broker.transactions.marking import Marking
from trimaran.node.config.server import ServerConfig
from trimaran.node.listening.listeners import bind, closed_on_failure
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.node.runtime.clock import now_ms
from trimaran.node.security.listener_security import controller_security, inter_broker_security
from trimaran.node.security.logins import Logins
from trimaran.quorum.controller.server import RunningController
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.features import REGISTERED_FEATURES, unsupported_levels
from trimaran.quorum.metadata.loader import Publisher
from trimaran.quorum.serving.accounts import Accounts
from trimaran.quorum.serving.altered_connections import AlteredConnections, connections_of
from trimaran.quorum.serving.altered_security import AlteredSecurity
from trimaran.quorum.serving.authorization import authorizer_of
from trimaran.quorum.serving.idle_configs import IdleConfigs
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.identity import Address
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.server.server import Listener

# A client handles an answer only when all of it has come. Measured with librdkafka at 1 KiB a record: 950 to 1,050 MB/s
# with answers of up to 8 or 16 MiB, which stay in the processor's cache on their way, 600 to 850 with 50 MB.
ANSWER_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything that runs, in one value, so that starting and stopping are plain functions."""

    config: ServerConfig
    storage: Storage
    quorum: QuorumAccess
    listeners: Sequence[Listener]
    altered: AlteredSecurity
    connections: AlteredConnections
    lifecycle: Lifecycle
    alter_partitions: AlterPartitions
    assignments: DirectoryAssignments
    fetchers: Fetchers
    transactions: Transactions
    publisher: BrokerPublisher
    maintenance: Maintenance
    context: Context


@dataclass(frozen=True, slots=True)
class _Gate:
    """Who may come in, and what they may do."""

    authorizer: Authorizer | None
    accounts: Accounts
    logins: Logins


def compose(
    config: ServerConfig,
    controller: RunningController | None,
    zookeeper_offsets: ZooKeeperOffsets | None = None,
) -> Parts:
    """Makes every part and starts none; what is held from here on (sockets, locks of directories) the caller closes.

    Raises:
        ConfigError, MetaPropertiesError, DirectoryLocked, OSError: the broker cannot start, and why.
    """
    authorizer = authorizer_of(config)  # refuses before anything is opened
    accounts = Accounts(config["delegation.token.secret.key"])
    gate = _Gate(authorizer, accounts, Logins(accounts.find))
    listeners = bind(config, config.broker_listeners, logins=gate.logins)
    with closed_on_failure(listeners):
        return _composed(config, controller, gate, listeners, zookeeper_offsets)


def _composed(
    config: ServerConfig,
    controller: RunningController | None,
    gate: _Gate,
    listeners: Sequence[Listener],
    zookeeper_offsets: ZooKeeperOffsets | None,
) -> Parts:
    storage = open_storage(config, None if controller is None else controller.directory)
    directories = storage.directories
    to_brokers, to_controllers = inter_broker_security(config), controller_security(config)
    access = _quorum_access(config, controller, storage, to_controllers)
    node_id, cluster_id = config.node_id, storage.metadata.meta_properties.cluster_id
    metadata = BrokerMetadata(access.loader.image)
    channel = _channel(config, access, to_controllers)
    settings = TopicSettingsSource(config, metadata, node_id)
    configs = NodeConfigs(config, lambda: metadata.image.configs)
    cordons = _cordons(config, configs, metadata, directories)
    lifecycle = _lifecycle(config, channel, directories, metadata, listeners, cordons)
    alter_partitions = AlterPartitions(channel, node_id, lambda: lifecycle.epoch)
    assignments = _assignments(channel, directories, lifecycle, node_id)
    services = _services(config, storage, settings, alter_partitions, metadata, lifecycle)
    throttles = ReplicationThrottles.of(config, configs)
    fetchers = _fetchers(config, metadata, lifecycle, to_brokers, throttles.follower)
    partitions = Partitions(services, fetchers, directories.high_watermark)
    groups = _groups(config, metadata, partitions)
    producer_ids = ProducerIds(channel, node_id, lambda: lifecycle.epoch)
    marks = Marking(partitions, groups.complete_transaction, now_ms)
    transacting = _transactions(config, configs, metadata, marks, producer_ids, to_brokers)
    publisher = BrokerPublisher(metadata, partitions, settings, directories, lifecycle.report)
    altered = _altered(config, listeners, to_brokers, to_controllers, gate.logins)
    tracker, quotas = RegistrationTracker(node_id, lifecycle.register_again), _client_quotas(config)
    connections = connections_of(config, config.broker_listeners, quotas.book, quotas.connected)
    _publish(access, gate, publisher, quotas, connections, throttles, groups, tracker, altered)
    context = Context(
        config=config,
        node_id=node_id,
        cluster_id=cluster_id,
        metadata=metadata,
        partitions=partitions,
        directories=directories,
        moves=DirectoryMoves(directories, partitions, throttles.moves),
        controller=channel,
        forwarder=Forwarder(channel, config["request.timeout.ms"] / 1000),
        topic_creation=TopicCreation(channel, metadata, config),
        fetch_sessions=FetchSessions(config["max.incremental.fetch.session.cache.slots"]),
        producer_ids=producer_ids,
        groups=groups,
        transactions=transacting.coordinator,
        verifier=transacting.verifier,
        limits=BrokerLimits(fetch_bytes_max=min(config["fetch.max.bytes"], ANSWER_BYTES_MAX)),
        broker_epoch=lambda: lifecycle.epoch,
        now_ms=now_ms,
        kraft_version=lambda: access.node.kraft_version,
        quotas=quotas,
        throttles=throttles,
        authorizer=gate.authorizer,
        zookeeper_offsets=zookeeper_offsets,
        replica_selector=SELECTORS.get(config["replica.selector.class"]),
        client_metrics=_client_metrics(config, access),
    )
    return Parts(
        config=config,
        storage=storage,
        quorum=access,
        listeners=listeners,
        altered=altered,
        connections=connections,
        lifecycle=lifecycle,
        alter_partitions=alter_partitions,
        assignments=assignments,
        fetchers=fetchers,
        transactions=transacting,
        publisher=publisher,
        maintenance=_maintenance(config, configs, partitions, directories),
        context=context,
    )


def _cordons(
    config: ServerConfig,
    configs: NodeConfigs,
    metadata: BrokerMetadata,
    directories: LogDirectories,
) -> Cordons:
    cordons = Cordons(config, configs, metadata)
    directories.cordoned = cordons.paths
    return cordons


def _groups(
    config: ServerConfig,
    metadata: BrokerMetadata,
    partitions: Partitions,
) -> GroupCoordinator:
    groups = GroupCoordinator(
        GroupLimits.of(config),
        metadata,
        ConfiguredGroups(config, lambda: metadata.image.configs).of,
    )
    partitions.listen(CONSUMER_OFFSETS, groups.runtime)
    return groups


def _client_metrics(config: ServerConfig, access: QuorumAccess) -> ClientMetrics:
    """What clients push is for who scrapes this broker, so nobody is asked for it where nobody can."""
    is_seen = bool(config["trimaran.metrics.listener"]) and otlp.is_available()
    received = ReceivedMetrics(_monotonic_ms) if is_seen else None
    metrics = ClientMetrics(received, config["telemetry.max.bytes"], _monotonic_ms)
    access.loader.add_publisher(metrics)
    return metrics


def _monotonic_ms() -> int:
    return int(trio.current_time() * 1000)


def _client_quotas(config: ServerConfig) -> ClientQuotas:
    return ClientQuotas(Windows(config["quota.window.num"], config["quota.window.size.seconds"]))


def _altered(
    config: ServerConfig,
    listeners: Sequence[Listener],
    to_brokers: ClientSecurity,
    to_controllers: ClientSecurity,
    logins: Logins,
) -> AlteredSecurity:
    clients = [(to_brokers, inter_broker_security), (to_controllers, controller_security)]
    return AlteredSecurity(config, listeners, clients, logins)


def _publish(access: QuorumAccess, gate: _Gate, *publishers: Publisher) -> None:
    """To these, in order, what changes in the metadata; who is who comes first, who may do what last."""
    access.loader.add_publisher(gate.accounts, *publishers)
    if gate.authorizer is not None:
        access.loader.add_publisher(gate.authorizer)
    if access.owned:
        access.loader.add_publisher(IdleConfigs(access.node.settings.identity.node_id))


def _quorum_access(
    config: ServerConfig,
    controller: RunningController | None,
    storage: Storage,
    security: ClientSecurity,
) -> QuorumAccess:
    if controller is None:
        return open_observer(config, storage.metadata, storage.metadata_commit, security)
    return QuorumAccess(controller.node, controller.loader, owned=False)


def _channel(
    config: ServerConfig, access: QuorumAccess, security: ClientSecurity
) -> ControllerChannel:
    return ControllerChannel(
        access.node.leader,
        lambda _leader_id: _leader_address(access),
        access.node.peer_down,
        f"broker-{config.node_id}-to-controller",
        security,
    )


def _leader_address(access: QuorumAccess) -> Address | None:
    peer = access.node.leader_address
    return None if peer is None else Address(peer.host, peer.port)


def _lifecycle(
    config: ServerConfig,
    channel: ControllerChannel,
    directories: LogDirectories,
    metadata: BrokerMetadata,
    listeners: Sequence[Listener],
    cordons: Cordons,
) -> Lifecycle:
    identity = BrokerIdentity(
        node_id=config.node_id,
        cluster_id=directories.metadata.meta_properties.cluster_id,
        listeners=advertised(config, listeners),
        features=REGISTERED_FEATURES,
        rack=config["broker.rack"],
        directory_ids=directories.online_ids(),
        previous_broker_epoch=directories.previous_broker_epoch,
    )
    return Lifecycle(
        channel,
        identity,
        _lifecycle_times(config),
        applied_offset=lambda: metadata.applied_offset,
        offline_directories=directories.offline_ids,
        unsupported_levels=lambda: _unsupported_levels(metadata),
        cordoned_directories=lambda: directories.cordoned_ids() if cordons.are_told else None,
    )


def _unsupported_levels(metadata: BrokerMetadata) -> str:
    if metadata.applied_offset < 0:  # nothing is known yet
        return ""
    return unsupported_levels(metadata.image.features, REGISTERED_FEATURES)


def _lifecycle_times(config: ServerConfig) -> LifecycleTimes:
    return LifecycleTimes(
        heartbeat=config["broker.heartbeat.interval.ms"] / 1000,
        session=config["broker.session.timeout.ms"] / 1000,
        registration=config["initial.broker.registration.timeout.ms"] / 1000,
    )


def _assignments(
    channel: ControllerChannel, directories: LogDirectories, lifecycle: Lifecycle, node_id: int
) -> DirectoryAssignments:
    assignments = DirectoryAssignments(channel, node_id, lambda: lifecycle.epoch)
    directories.on_placed = assignments.assign
    return assignments


def _services(
    config: ServerConfig,
    storage: Storage,
    settings: TopicSettingsSource,
    alter_partitions: AlterPartitions,
    metadata: BrokerMetadata,
    lifecycle: Lifecycle,
) -> Services:
    return Services(
        node_id=config.node_id,
        directories=storage.directories,
        settings=settings,
        commit=storage.durability,
        isr_changes=alter_partitions,
        metadata=metadata,
        broker_epoch=lambda: lifecycle.epoch,
        lag_seconds_max=config["replica.lag.time.max.ms"] / 1000,
        now=trio.current_time,
        now_ms=now_ms,
    )


def _fetchers(
    config: ServerConfig,
    metadata: BrokerMetadata,
    lifecycle: Lifecycle,
    security: ClientSecurity,
    throttle: ReplicationThrottle,
) -> Fetchers:
    settings = FetchSettings(
        replica_id=config.node_id,
        broker_epoch=lambda: lifecycle.epoch,
        wait_max_ms=config["replica.fetch.wait.max.ms"],
        min_bytes=config["replica.fetch.min.bytes"],
        partition_bytes_max=config["replica.fetch.max.bytes"],
        response_bytes_max=config["replica.fetch.response.max.bytes"],
        backoff_seconds_max=config["replica.fetch.backoff.ms"] / 1000,
        response_seconds=config["replica.socket.timeout.ms"] / 1000,
        throttle=throttle,
    )
    return Fetchers(_connector(config, metadata, "fetcher", security), settings)


def _transactions(
    config: ServerConfig,
    configs: NodeConfigs,
    metadata: BrokerMetadata,
    marking: Marking,
    producer_ids: ProducerIds,
    security: ClientSecurity,
) -> Transactions:
    parts = transactions(
        config,
        metadata,
        marking,
        producer_ids,
        lambda purpose: _channels(config, metadata, security, purpose),
        lambda: bool(configs.now("transaction.partition.verification.enable")),
    )
    marking.partitions.listen(TRANSACTION_STATE, parts.coordinator.runtime)
    return parts


def _channels(
    config: ServerConfig, metadata: BrokerMetadata, security: ClientSecurity, purpose: str
) -> BrokerChannels:
    limits = ChannelLimits(response_seconds=config["request.timeout.ms"] / 1000)
    return BrokerChannels(_connector(config, metadata, purpose, security), limits)


def _connector(
    config: ServerConfig, metadata: BrokerMetadata, purpose: str, security: ClientSecurity
) -> BrokerConnector:
    return BrokerConnector(
        lambda broker_id: _broker_address(config, metadata, broker_id),
        f"broker-{config.node_id}-{purpose}",
        security,
    )


def _broker_address(
    config: ServerConfig, metadata: BrokerMetadata, broker_id: int
) -> Address | None:
    broker = metadata.image.cluster.brokers.get(broker_id)
    if broker is None:
        return None
    endpoint = endpoint_of(broker, config.inter_broker_listener_name)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)


def _maintenance(
    config: ServerConfig,
    configs: NodeConfigs,
    partitions: Partitions,
    directories: LogDirectories,
) -> Maintenance:
    times = MaintenanceTimes(
        checkpoint=config["replica.high.watermark.checkpoint.interval.ms"] / 1000,
        retention=config["log.retention.check.interval.ms"] / 1000,
        replica_lag_max=config["replica.lag.time.max.ms"] / 1000,
        producer_expiration=config["producer.id.expiration.check.interval.ms"] / 1000,
        delete_delay=config["log.segment.delete.delay.ms"] / 1000,
        flush=config["log.flush.scheduler.interval.ms"] / 1000,
    )
    return Maintenance(partitions, directories, times, now_ms, lambda: CleanerSettings.of(configs))
