"""A broker process put together: started in order, ended in order.

Start: directory, quorum observer, registration, caught up with the metadata, logs recovered, partitions begun, listeners served,
unfenced. End (the caller cancels): controlled shutdown while everything still runs, then connections drained, logs
flushed, checkpoints and the clean-shutdown marker written. Source: `BrokerServer`, `SharedServer` of Kafka.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import trio

from broker.context import BrokerLimits, Context
from broker.controller_channel import Address, ControllerChannel
from broker.directories import LogDirectories
from broker.directory_assignments import DirectoryAssignments
from broker.directory_moves import DirectoryMoves
from broker.endpoints import endpoint_of
from broker.fetching.sessions import FetchSessions
from broker.forwarding import Forwarder
from broker.groups.coordinator import GroupCoordinator
from broker.groups.limits import GroupLimits
from broker.handlers.registry import broker_registry
from broker.internal_topics import CONSUMER_OFFSETS
from broker.lifecycle import BrokerIdentity, BrokerState, Lifecycle, LifecycleTimes
from broker.listeners import advertised
from broker.log_cleaner import CleanerSettings
from broker.maintenance import Maintenance, MaintenanceTimes
from broker.metadata import BrokerMetadata
from broker.partitions.alter_partitions import AlterPartitions
from broker.partitions.fetch_client import FetchSettings
from broker.partitions.fetchers import Fetchers
from broker.partitions.registry import Partitions
from broker.partitions.services import Durability, Services
from broker.producer_ids import ProducerIds
from broker.publisher import BrokerPublisher
from broker.quorum_access import QuorumAccess, open_observer
from broker.storage import Storage, open_storage
from broker.topic_creation import TopicCreation
from broker.topic_settings import TopicSettingsSource
from log.directory import LogDirectory
from quorum.authorization import authorizer_of
from quorum.config.security import controller_security, inter_broker_security
from quorum.config.server import ServerConfig
from quorum.controller.features import REGISTERED_FEATURES
from quorum.listeners import bind, limits_of
from quorum.metadata.image import LOST_DIRECTORY
from quorum.runtime.clock import now_ms
from quorum.runtime.errors import StorageFailure
from quorum.runtime.threads import run_blocking
from quorum.server import RunningController
from wire.errors import KafkaError
from wire.transport.server import Listener, Server, serve_listener

log = logging.getLogger(__name__)

# How long a broker waits for the controller to move its leaderships when it is told to stop (Kafka: as long as it takes;
# supervisors kill after 30 s), and for answers that are owed.
CONTROLLED_SHUTDOWN_SECONDS = 20.0
DRAIN_SECONDS = 2.0

# A client handles an answer only when all of it has come. Measured with librdkafka at 1 KiB a record: 950 to 1,050 MB/s with
# answers of up to 8 or 16 MiB, which stay in the processor's cache on their way, 600 to 850 with 50 MB.
ANSWER_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """What `run_broker` reports when the broker serves."""

    node_id: int
    addresses: Mapping[str, Address]  # listener name -> where it listens
    context: Context


@dataclass(frozen=True, slots=True)
class _Parts:
    """Everything that runs, in one value, so that starting and stopping are plain functions."""

    config: ServerConfig
    storage: Storage
    quorum: QuorumAccess
    listeners: Sequence[Listener]
    lifecycle: Lifecycle
    alter_partitions: AlterPartitions
    assignments: DirectoryAssignments
    fetchers: Fetchers
    publisher: BrokerPublisher
    maintenance: Maintenance
    context: Context


async def run_broker(
    config: ServerConfig,
    *,
    controller: RunningController | None = None,
    sockets: Mapping[str, socket.socket] | None = None,
    task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a broker until it is cancelled; then it hands its partitions over before it ends.

    `controller` runs in the same process, if there is one: its node, loader and directory are shared, and outlive the
    broker. `sockets` were bound before, by listener name.

    Raises:
        ConfigError, MetaPropertiesError, DirectoryLocked, OSError: it cannot start, and why.
        RegistrationRefused: the controller will not have it.
        StorageFailure: its log directory went offline; what was acknowledged is on it.
    """
    parts = _compose(config, controller, sockets)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_shielded, parts, stop, task_status)
        try:
            await stop.wait()
        finally:
            stop.set()


# -- putting together


def _compose(
    config: ServerConfig,
    controller: RunningController | None,
    sockets: Mapping[str, socket.socket] | None,
) -> _Parts:
    listeners = bind(config, config.broker_listeners, sockets)
    storage = open_storage(config, None if controller is None else controller.directory)
    directories = storage.directories
    access = (
        open_observer(config, storage.metadata, storage.metadata_commit)
        if controller is None
        else QuorumAccess(controller.node, controller.loader, owned=False)
    )
    node_id, cluster_id = config.node_id, storage.metadata.meta_properties.cluster_id

    metadata = BrokerMetadata(access.loader.image)
    channel = _channel(config, access)
    settings = TopicSettingsSource(config, metadata, node_id)
    lifecycle = _lifecycle(config, channel, directories, metadata, listeners)
    alter_partitions = AlterPartitions(channel, node_id, lambda: lifecycle.epoch)
    assignments = DirectoryAssignments(channel, node_id, lambda: lifecycle.epoch)
    directories.on_placed = lambda _topic, index, topic_id, directory_id: assignments.assign(
        topic_id, index, directory_id
    )
    services = _services(
        config, directories, settings, storage.durability, alter_partitions, metadata, lifecycle
    )
    fetchers = Fetchers(
        lambda broker_id: _broker_address(config, metadata, broker_id),
        _fetch_settings(config, lifecycle),
        f"broker-{node_id}-fetcher",
        inter_broker_security(config),
    )
    partitions = Partitions(services, fetchers, directories.high_watermark)
    groups = GroupCoordinator(GroupLimits.of(config), metadata, directories.storage_failed)
    partitions.listen(CONSUMER_OFFSETS, groups)
    publisher = BrokerPublisher(metadata, partitions, settings, directories, lifecycle.report)
    authorizer = authorizer_of(config)
    access.loader.add_publisher(publisher, groups, *([authorizer] if authorizer else []))
    context = Context(
        config=config,
        node_id=node_id,
        cluster_id=cluster_id,
        metadata=metadata,
        partitions=partitions,
        directories=directories,
        moves=DirectoryMoves(directories, partitions),
        controller=channel,
        forwarder=Forwarder(channel),
        topic_creation=TopicCreation(channel, metadata, config),
        fetch_sessions=FetchSessions(config["max.incremental.fetch.session.cache.slots"]),
        producer_ids=ProducerIds(channel, node_id, lambda: lifecycle.epoch),
        groups=groups,
        limits=BrokerLimits(fetch_bytes_max=min(config["fetch.max.bytes"], ANSWER_BYTES_MAX)),
        broker_epoch=lambda: lifecycle.epoch,
        now_ms=now_ms,
        kraft_version=lambda: access.node.kraft_version,
        authorizer=authorizer,
    )
    return _Parts(
        config=config,
        storage=storage,
        quorum=access,
        listeners=listeners,
        lifecycle=lifecycle,
        alter_partitions=alter_partitions,
        assignments=assignments,
        fetchers=fetchers,
        publisher=publisher,
        maintenance=_maintenance(config, partitions, directories),
        context=context,
    )


def _channel(config: ServerConfig, access: QuorumAccess) -> ControllerChannel:
    return ControllerChannel(
        access.node.leader,
        lambda _leader_id: _leader_address(access),
        access.node.peer_gone,
        f"broker-{config.node_id}-to-controller",
        controller_security(config),
    )


def _lifecycle(
    config: ServerConfig,
    channel: ControllerChannel,
    directories: LogDirectories,
    metadata: BrokerMetadata,
    listeners: Sequence[Listener],
) -> Lifecycle:
    previous_epoch = (
        directories.metadata.previous_broker_epoch if directories.clean_shutdown else None
    )
    identity = BrokerIdentity(
        node_id=config.node_id,
        cluster_id=directories.metadata.meta_properties.cluster_id,
        listeners=advertised(config, listeners),
        features=REGISTERED_FEATURES,
        rack=config["broker.rack"],
        directory_ids=directories.online_ids(),
        previous_broker_epoch=-1 if previous_epoch is None else previous_epoch,
    )
    return Lifecycle(
        channel,
        identity,
        _lifecycle_times(config),
        applied_offset=lambda: metadata.applied_offset,
        offline_directories=directories.offline_ids,
    )


def _services(
    config: ServerConfig,
    directories: LogDirectories,
    settings: TopicSettingsSource,
    commit: Durability,
    alter_partitions: AlterPartitions,
    metadata: BrokerMetadata,
    lifecycle: Lifecycle,
) -> Services:
    return Services(
        node_id=config.node_id,
        directories=directories,
        settings=settings,
        commit=commit,
        isr_changes=alter_partitions,
        metadata=metadata,
        broker_epoch=lambda: lifecycle.epoch,
        lag_seconds_max=config["replica.lag.time.max.ms"] / 1000,
        now=trio.current_time,
        now_ms=now_ms,
    )


def _leader_address(access: QuorumAccess) -> Address | None:
    peer = access.node.leader_address
    return None if peer is None else (peer.host, peer.port)


def _broker_address(
    config: ServerConfig, metadata: BrokerMetadata, broker_id: int
) -> Address | None:
    broker = metadata.image.cluster.brokers.get(broker_id)
    if broker is None:
        return None
    endpoint = endpoint_of(broker, config.inter_broker_listener_name)
    return None if endpoint is None else (endpoint.host, endpoint.port)


def _fetch_settings(config: ServerConfig, lifecycle: Lifecycle) -> FetchSettings:
    return FetchSettings(
        replica_id=config.node_id,
        broker_epoch=lambda: lifecycle.epoch,
        wait_max_ms=config["replica.fetch.wait.max.ms"],
        min_bytes=config["replica.fetch.min.bytes"],
        partition_bytes_max=config["replica.fetch.max.bytes"],
        response_bytes_max=config["replica.fetch.response.max.bytes"],
    )


def _lifecycle_times(config: ServerConfig) -> LifecycleTimes:
    return LifecycleTimes(
        heartbeat=config["broker.heartbeat.interval.ms"] / 1000,
        session=config["broker.session.timeout.ms"] / 1000,
        registration=config["initial.broker.registration.timeout.ms"] / 1000,
    )


def _maintenance(
    config: ServerConfig, partitions: Partitions, directories: LogDirectories
) -> Maintenance:
    times = MaintenanceTimes(
        checkpoint=config["replica.high.watermark.checkpoint.interval.ms"] / 1000,
        retention=config["log.retention.check.interval.ms"] / 1000,
        replica_lag_max=config["replica.lag.time.max.ms"] / 1000,
        producer_expiration=config["producer.id.expiration.check.interval.ms"] / 1000,
        delete_delay=config["log.segment.delete.delay.ms"] / 1000,
    )
    return Maintenance(partitions, directories, times, now_ms, CleanerSettings.of(config))


# -- running


async def _run_shielded(
    parts: _Parts,
    stop: trio.Event,
    task_status: trio.TaskStatus[RunningBroker],
) -> None:
    """Everything that must still work while the broker takes its leave; ends by itself soon after `stop`."""
    with trio.CancelScope(shield=True):
        clean = False
        try:
            async with trio.open_nursery() as nursery:
                server = await _start(parts, nursery, stop, task_status)
                await stop.wait()
                await _take_leave(parts, server)
                nursery.cancel_scope.cancel()
            clean = True
        finally:
            for listener in parts.listeners:
                listener.socket.close()
            await _close(parts, clean=clean)


async def _start(
    parts: _Parts,
    nursery: trio.Nursery,
    stop: trio.Event,
    task_status: trio.TaskStatus[RunningBroker],
) -> Server | None:
    """Returns None if it was told to stop before it served."""
    with trio.CancelScope() as starting:
        nursery.start_soon(_cancel_when, stop, starting)
        nursery.start_soon(_watch_directories, parts)
        nursery.start_soon(parts.storage.metadata_commit.run)
        for directory in parts.storage.commits:
            nursery.start_soon(parts.storage.commit, directory)
        if parts.quorum.owned:
            await nursery.start(parts.quorum.node.run)
        ctx, lifecycle = parts.context, parts.lifecycle
        for part in (
            ctx.controller,
            parts.alter_partitions,
            parts.assignments,
            parts.fetchers,
            lifecycle,
        ):
            nursery.start_soon(part.run)
        await parts.quorum.node.wait_caught_up()
        await ctx.metadata.wait_for(lambda image: 0 <= lifecycle.epoch <= image.provenance.offset)
        await _recover_logs(parts)
        await parts.publisher.activate()
        nursery.start_soon(parts.publisher.run)
        await nursery.start(ctx.groups.run)
        nursery.start_soon(parts.maintenance.run)
        nursery.start_soon(ctx.moves.run)
        server: Server = await nursery.start(_serve, parts)
        lifecycle.unfence()
        await lifecycle.state.wait_for(lambda state: state is not BrokerState.RECOVERY)
        task_status.started(RunningBroker(ctx.node_id, server.addresses, ctx))
        return server
    return None


async def _cancel_when(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def _watch_directories(parts: _Parts) -> None:
    """A directory that fails takes its replicas along; the controller hears of it and has others lead. Raises StorageFailure."""
    directories, ctx = parts.storage.directories, parts.context
    while True:
        for failed in await directories.wait_failed():
            log.error("log directory %s is offline: %s", failed.path, failed.offline)
            if directories.offline is not None:
                raise StorageFailure(f"{failed.path} is offline: {failed.offline}")
            lost = [
                one for one in ctx.partitions if directories.holding(one.topic, one.index) is failed
            ]
            for partition in lost:
                if partition.state.directory_of(ctx.node_id) != failed.directory_id:
                    parts.assignments.assign(partition.topic_id, partition.index, LOST_DIRECTORY)
            ctx.partitions.reopen(lost)
            parts.lifecycle.report()


async def _serve(
    parts: _Parts, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    await serve_listener(
        parts.listeners,
        broker_registry(),
        parts.context,
        limits=limits_of(parts.config),
        task_status=task_status,
    )


async def _recover_logs(parts: _Parts) -> None:
    """After a crash the logs that were written to are checked above their recovery points; after a clean stop none is opened."""
    async with trio.open_nursery() as nursery:
        for directory in parts.storage.directories.online:
            if not directory.clean_shutdown:
                nursery.start_soon(_recover_directory, parts.context, directory)


async def _recover_directory(ctx: Context, directory: LogDirectory) -> None:
    topics = ctx.metadata.image.topics.by_name
    try:
        for topic, index in directory.unsettled():
            if topic not in topics or directory.topic_id(topic, index) != topics[topic].id:
                continue
            settings = ctx.partitions.settings_of(topic)
            try:
                await run_blocking(directory.open_log, topic, index, settings.log)
            except KafkaError as error:
                ctx.directories.refused(topic, index, topics[topic].id, error)
    except KafkaError as error:
        log.error("recovery of %s: %s", directory.path, error)
    ctx.directories.storage_failed()


# -- ending


async def _take_leave(parts: _Parts, server: Server | None) -> None:
    if server is not None:
        if not await parts.lifecycle.shut_down(CONTROLLED_SHUTDOWN_SECONDS):
            log.warning("stopping without the controller's leave")
        await server.drain(DRAIN_SECONDS)


async def _close(parts: _Parts, *, clean: bool) -> None:
    watermarks = parts.context.partitions.watermarks()
    parts.context.moves.close()
    parts.context.partitions.close()
    await parts.storage.close(parts.lifecycle.epoch if clean else None, watermarks)
