"""A broker process: starts and stops its parts (`broker/process/composition.py`) in order.

Start: directory, quorum observer, registration, catch-up with the metadata, recovery of logs, partitions, listeners,
unfencing. Stop (when cancelled): controlled shutdown while everything still runs, then draining of connections, flushes
of logs, checkpoints and the clean-shutdown marker. Source: `BrokerServer`, `SharedServer` of Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import trio

from trimaran.broker import events
from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
from trimaran.broker.handlers.context import Contexts
from trimaran.broker.handlers.registry import broker_registry
from trimaran.broker.partitions.suspect_checks import check_suspects
from trimaran.broker.process.composition import Parts, compose
from trimaran.broker.process.failed_directories import watch_directories
from trimaran.broker.process.lifecycle import BrokerState
from trimaran.broker.storage.unfinished_moves import finish_moves
from trimaran.log.directories.directory import LogDirectory
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.listening.listeners import close_all, limits_of
from trimaran.node.runtime.graceful import run_gracefully
from trimaran.node.runtime.steps import at_once
from trimaran.node.runtime.threads import run_blocking
from trimaran.quorum.controller.server import RunningController
from trimaran.quorum.metadata.image import BROKER_RESOURCE, ConfigsImage
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import Address, BrokerId
from trimaran.wire.transport.server.server import Server, serve_listener

log = logging.getLogger(__name__)

# The time for which a stopping broker waits for the controller to move its leaderships (Kafka does not limit this time;
# supervisors kill after 30 s), and for pending responses.
CONTROLLED_SHUTDOWN_SECONDS = 20.0
DRAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """The value that `run_broker` reports when the broker serves; `parts` are for observers such as metrics."""

    node_id: BrokerId
    addresses: Mapping[str, Address]  # by listener name
    contexts: Contexts
    server: Server
    parts: Parts
    controller: RunningController | None  # the controller in the same process


async def run_broker(
    config: ServerConfig,
    *,
    controller: RunningController | None = None,
    zookeeper_offsets: ZooKeeperOffsets | None = None,
    task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a broker until it is cancelled, then hands over its partitions and stops.

    `controller`, if any, runs in the same process: the broker shares its node, loader and directory, which outlive the
    broker. `zookeeper_offsets` stores the offsets of old consumers, if configured.

    Raises:
        ConfigError, MetaPropertiesError, DirectoryLocked, OSError: the reason why the broker cannot start.
        RegistrationRefused: the controller refused the broker.
        StorageFailure: its log directory went offline; acknowledged records are on its disk.
    """
    parts = compose(config, controller, zookeeper_offsets)
    await run_gracefully(partial(_run, parts, controller, task_status))


# -- running


async def _run(
    parts: Parts,
    controller: RunningController | None,
    task_status: trio.TaskStatus[RunningBroker],
    stop: trio.Event,
) -> None:
    """Runs all parts, which must keep working during the controlled shutdown."""
    clean = False
    try:
        async with trio.open_nursery() as nursery:
            server = await _start(parts, nursery, stop)
            if server is not None:
                contexts, node_id = parts.families.contexts, parts.config.broker_id
                task_status.started(
                    RunningBroker(node_id, server.addresses, contexts, server, parts, controller)
                )
            await stop.wait()
            await _take_leave(parts, server)
            nursery.cancel_scope.cancel()
        clean = True
    finally:
        close_all(parts.listeners)
        await _close(parts, clean=clean)


async def _start(parts: Parts, nursery: trio.Nursery, stop: trio.Event) -> Server | None:
    """Starts all parts. Returns None if `stop` was set before the broker served."""
    with trio.CancelScope() as starting:
        nursery.start_soon(_cancel_when, stop, starting)
        nursery.start_soon(watch_directories, parts)
        nursery.start_soon(parts.storage.metadata_commit.run)
        for directory in parts.storage.commits:
            nursery.start_soon(parts.storage.commit, directory)
        if parts.quorum.owned:
            await nursery.start(parts.quorum.node.run)
        families, lifecycle = parts.families, parts.lifecycle
        metadata, partitions = parts.metadata, families.data.partitions
        for part in (
            parts.controller,
            parts.alter_partitions,
            families.data.assignments,
            parts.fetchers,
            families.transactions,
            families.shares,
            lifecycle,
        ):
            nursery.start_soon(part.run)
        await parts.quorum.node.wait_caught_up()
        if parts.authorizer is not None:
            parts.authorizer.complete_initial_load()
        for line in overridden(parts.config, metadata.image.configs):
            events.CONFIG_OVERRIDDEN.log(log, config=line)
        # The image may have the registration before the response to it arrives, and there may be no later record.
        await lifecycle.state.wait_not(BrokerState.STARTING)
        await metadata.wait_for(lambda image: lifecycle.epoch <= image.provenance.offset)
        await finish_moves(parts.storage.directories, metadata.image.topics, parts.config.broker_id)
        await _recover_logs(parts)
        await families.data.publisher.activate()
        nursery.start_soon(families.data.publisher.run)
        await nursery.start(families.groups.runtime.run)
        nursery.start_soon(parts.maintenance.run)
        nursery.start_soon(families.data.moves.run)
        nursery.start_soon(parts.altered.run)
        nursery.start_soon(parts.connections.book.run)
        nursery.start_soon(check_suspects, partitions)
        server: Server = await nursery.start(_serve, parts)
        lifecycle.unfence()
        await lifecycle.state.wait_for(lambda state: state is not BrokerState.RECOVERY)
        return server
    return None


async def _cancel_when(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel()


async def _serve(
    parts: Parts, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    contexts = parts.families.contexts
    await serve_listener(
        parts.listeners,
        broker_registry(
            zookeeper_offsets=contexts.groups.zookeeper_offsets is not None,
            client_metrics=contexts.administration.collects_client_metrics,
            hooks=parts.families.data.quotas.hooks,
        ),
        contexts,
        limits=limits_of(parts.config),
        quotas=parts.connections.quotas,
        task_status=task_status,
    )


async def _recover_logs(parts: Parts) -> None:
    """Recovers logs after a crash: checks written logs above their recovery points. Opens no log after a clean
    shutdown.
    """
    async with trio.open_nursery() as nursery:
        for directory in parts.storage.directories.online:
            if not directory.clean_shutdown:
                nursery.start_soon(_recover_directory, parts, directory)


async def _recover_directory(parts: Parts, directory: LogDirectory) -> None:
    topics = parts.metadata.image.topics.by_name
    for key in directory.unsettled():
        topic = topics.get(key.topic)
        if topic is None:
            continue
        settings = parts.families.data.partitions.settings_of(key.topic)
        try:
            if directory.is_of(key, topic.id):
                await run_blocking(directory.open_log, key, settings.log)
        except KafkaError as error:
            parts.storage.directories.refused(key, topic.id, error)
            if directory.offline is not None:
                events.LOG_DIRECTORY_RECOVERY_FAILED.log(log, directory=directory.path, error=error)
                break


# -- stopping


async def _take_leave(parts: Parts, server: Server | None) -> None:
    if server is not None:
        hands_over = parts.config["controlled.shutdown.enable"]
        if hands_over and not await parts.lifecycle.shut_down(CONTROLLED_SHUTDOWN_SECONDS):
            events.BROKER_LEFT_WITHOUT_LEAVE.log(log)
        await server.drain(DRAIN_SECONDS)


async def _close(parts: Parts, *, clean: bool) -> None:
    data = parts.families.data
    watermarks = at_once(data.partitions.watermarks())
    data.moves.close()
    data.partitions.close()
    await parts.storage.close(parts.lifecycle.epoch if clean else None, watermarks)


def overridden(config: ServerConfig, configs: ConfigsImage) -> Iterator[str]:
    """Yields a line for each setting in the broker's file that a dynamic config of the cluster overrides.

    Usually this is min.insync.replicas: a cluster with eligible leader replicas sets it when it is created, to the
    value of the controllers (KIP-966).
    """
    own = configs.of(BROKER_RESOURCE, str(config.node_id))
    for name, text in sorted(configs.of(BROKER_RESOURCE, "").update(own).items()):
        key = SERVER_CONFIGS.get(name)
        if key is None or name not in config.explicit:
            continue
        if key.parse_stored(text) == config.explicit[name]:
            continue
        resource = f"broker/{config.node_id}" if name in own else "broker"
        value = "another value" if key.sensitive else text
        yield (
            f"{config.origins.get(name, name)}: {name} is not used here, as {value} was set for the running"
            f" {'broker' if name in own else 'cluster'} (trimaran configs get {resource} {name})"
        )
