"""Assembles a broker process from its families (`broker/process/families.py`) and its connections to the cluster and to
clients; `broker/process/server.py` starts and stops it. Source: `BrokerServer`, `SharedServer` of Kafka.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import trio

from trimaran.broker.background.log_cleaner import CleanerSettings
from trimaran.broker.background.maintenance import Maintenance, MaintenanceTimes
from trimaran.broker.channels.broker_channel import ChannelLimits
from trimaran.broker.channels.broker_channels import BrokerChannels
from trimaran.broker.channels.broker_connector import BrokerConnector
from trimaran.broker.channels.controller_channel import ControllerChannel
from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from trimaran.broker.metadata.endpoints import endpoint_of
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.partitions.alter_partitions import AlterPartitions
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.process.families import Cluster, Families, families, fetchers_of
from trimaran.broker.process.lifecycle import (
    BrokerIdentity,
    Lifecycle,
    LifecycleTimes,
    RegistrationTracker,
)
from trimaran.broker.process.ports import Ports
from trimaran.broker.process.quorum_access import QuorumAccess, open_observer
from trimaran.broker.replication.fetchers import Fetchers
from trimaran.broker.storage.broker_storage import Storage, open_storage
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.telemetry import otlp
from trimaran.broker.telemetry.clients import ClientMetrics
from trimaran.broker.telemetry.received import ReceivedMetrics
from trimaran.node.config.server import ServerConfig
from trimaran.node.listening.listeners import bind, closed_on_failure
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
from trimaran.wire.identity import Address, BrokerId
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.server.server import Listener


@dataclass(frozen=True, slots=True)
class Parts:
    """All running parts in one value, so that starting and stopping are plain functions."""

    config: ServerConfig
    metadata: BrokerMetadata
    authorizer: Authorizer | None
    storage: Storage
    quorum: QuorumAccess
    listeners: Sequence[Listener]
    altered: AlteredSecurity
    connections: AlteredConnections
    controller: ControllerChannel
    lifecycle: Lifecycle
    alter_partitions: AlterPartitions
    fetchers: Fetchers
    families: Families
    maintenance: Maintenance


@dataclass(frozen=True, slots=True)
class _Gate:
    """The authentication and authorization of clients."""

    authorizer: Authorizer | None
    accounts: Accounts
    logins: Logins


def compose(
    config: ServerConfig,
    controller: RunningController | None,
    zookeeper_offsets: ZooKeeperOffsets | None = None,
) -> Parts:
    """Creates all parts without starting them; the caller closes acquired resources (sockets, directory locks).

    Raises:
        ConfigError, MetaPropertiesError, DirectoryLocked, OSError: the reason why the broker cannot start.
    """
    authorizer = authorizer_of(config)  # reports invalid configs before anything is opened
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
    to_brokers, to_controllers = inter_broker_security(config), controller_security(config)
    access = _quorum_access(config, controller, storage, to_controllers)
    cluster = Cluster.of(config, BrokerMetadata(access.loader.image))
    channel = _channel(config, access, to_controllers)
    lifecycle = _lifecycle(cluster, channel, storage.directories, listeners)
    alter_partitions = AlterPartitions(channel, config.broker_id, lambda: lifecycle.epoch)
    connector = partial(_connector, cluster, to_brokers)
    fetchers = fetchers_of(cluster, connector("fetcher"), lambda: lifecycle.epoch)
    limits = ChannelLimits(response_seconds=config["request.timeout.ms"] / 1000)
    made = families(
        cluster,
        Ports(
            directories=storage.directories,
            durability=storage.durability,
            controller=channel,
            isr_changes=alter_partitions,
            fetchers=fetchers,
            open_channels=lambda purpose: BrokerChannels(connector(purpose), limits),
            broker_epoch=lambda: lifecycle.epoch,
            report=lifecycle.report,
            kraft_version=lambda: access.node.kraft_version,
            quorum_epoch=lambda: access.node.leader.value.epoch,
            now=trio.current_time,
            now_ms=now_ms,
        ),
        storage.metadata.meta_properties.cluster_id,
        authorizer=gate.authorizer,
        zookeeper_offsets=zookeeper_offsets,
        client_metrics=_client_metrics(config, access),
    )
    altered = _altered(config, listeners, to_brokers, to_controllers, gate.logins)
    quotas = made.data.quotas
    connections = connections_of(config, config.broker_listeners, quotas.book, quotas.connected)
    tracker = RegistrationTracker(config.broker_id, lifecycle.register_again)
    _publish(
        *(access, gate, made.data.publisher, quotas, connections, cluster.throttles, made.groups),
        *(made.shares.coordinator, made.shares.sharing, tracker, altered),
    )
    return Parts(
        config=config,
        metadata=cluster.metadata,
        authorizer=gate.authorizer,
        storage=storage,
        quorum=access,
        listeners=listeners,
        altered=altered,
        connections=connections,
        controller=channel,
        lifecycle=lifecycle,
        alter_partitions=alter_partitions,
        fetchers=fetchers,
        families=made,
        maintenance=_maintenance(cluster, made.data.partitions, storage.directories),
    )


def _client_metrics(config: ServerConfig, access: QuorumAccess) -> ClientMetrics:
    """Returns the collector of pushed client metrics. They are only exposed at this broker's scrape endpoint; without
    one, clients are not requested to push.
    """
    is_seen = bool(config["trimaran.metrics.listener"]) and otlp.is_available()
    received = ReceivedMetrics(_monotonic_ms) if is_seen else None
    metrics = ClientMetrics(received, config["telemetry.max.bytes"], _monotonic_ms)
    access.loader.add_publisher(metrics)
    return metrics


def _monotonic_ms() -> int:
    return int(trio.current_time() * 1000)


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
    """Adds the publishers of the metadata in order, from accounts to the authorizer."""
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
        f"broker-{config.broker_id}-to-controller",
        security,
    )


def _leader_address(access: QuorumAccess) -> Address | None:
    peer = access.node.leader_address
    return None if peer is None else Address(peer.host, peer.port)


def _lifecycle(
    cluster: Cluster,
    channel: ControllerChannel,
    directories: LogDirectories,
    listeners: Sequence[Listener],
) -> Lifecycle:
    config, metadata, cordons = cluster.config, cluster.metadata, cluster.cordons
    identity = BrokerIdentity(
        node_id=config.broker_id,
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
        cordoned_directories=lambda: directories.cordoned_ids() if cordons.are_reported else None,
    )


def _unsupported_levels(metadata: BrokerMetadata) -> str:
    if metadata.applied_offset < 0:  # no metadata yet
        return ""
    return unsupported_levels(metadata.image.features, REGISTERED_FEATURES)


def _lifecycle_times(config: ServerConfig) -> LifecycleTimes:
    return LifecycleTimes(
        heartbeat=config["broker.heartbeat.interval.ms"] / 1000,
        session=config["broker.session.timeout.ms"] / 1000,
        registration=config["initial.broker.registration.timeout.ms"] / 1000,
    )


def _connector(cluster: Cluster, security: ClientSecurity, purpose: str) -> BrokerConnector:
    return BrokerConnector(
        partial(_broker_address, cluster), f"broker-{cluster.config.broker_id}-{purpose}", security
    )


def _broker_address(cluster: Cluster, broker_id: BrokerId) -> Address | None:
    broker = cluster.metadata.image.cluster.brokers.get(broker_id)
    if broker is None:
        return None
    endpoint = endpoint_of(broker, cluster.config.inter_broker_listener_name)
    return None if endpoint is None else Address(endpoint.host, endpoint.port)


def _maintenance(
    cluster: Cluster, partitions: Partitions, directories: LogDirectories
) -> Maintenance:
    config = cluster.config
    times = MaintenanceTimes(
        checkpoint=config["replica.high.watermark.checkpoint.interval.ms"] / 1000,
        retention=config["log.retention.check.interval.ms"] / 1000,
        replica_lag_max=config["replica.lag.time.max.ms"] / 1000,
        producer_expiration=config["producer.id.expiration.check.interval.ms"] / 1000,
        delete_delay=config["log.segment.delete.delay.ms"] / 1000,
        flush=config["log.flush.scheduler.interval.ms"] / 1000,
    )
    return Maintenance(
        partitions, directories, times, now_ms, lambda: CleanerSettings.of(cluster.configs)
    )


def advertised(config: ServerConfig, listeners: Sequence[Listener]) -> list[Endpoint]:
    """Returns the listeners to register (`advertised.listeners`); replaces port 0 by the bound port, and a missing host
    by the name of this machine.
    """
    ports = {listener.name: listener.address[1] for listener in listeners}
    return [
        endpoint._replace(
            host=endpoint.host or socket.getfqdn(), port=endpoint.port or ports[endpoint.name]
        )
        for endpoint in config.advertised_broker_listeners
        if endpoint.name in ports
    ]
