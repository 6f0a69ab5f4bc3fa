"""A controller process: its composition, its ordered start and its ordered end.

Start: directory, metadata log, the quorum's node with the controller as its listener, sockets, registration with the
active controller. End, when the caller cancels: hand over leadership while everything still runs, send pending
responses, flush logs. Source: `ControllerServer`, `SharedServer` of Kafka.
"""

from __future__ import annotations

import logging
import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import trio

from trimaran.log.directories.directory import LogDirectory
from trimaran.log.durability.group_commit import GroupCommit
from trimaran.node.config.server import ServerConfig
from trimaran.node.listening.addresses import AddressBook
from trimaran.node.listening.listeners import bind, close_all, closed_on_failure, limits_of
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.graceful import run_gracefully
from trimaran.node.runtime.threads import run_blocking
from trimaran.node.security.listener_security import controller_security
from trimaran.node.security.logins import Logins
from trimaran.quorum import events
from trimaran.quorum.controller.configs.mutation_quotas import MutationQuotas
from trimaran.quorum.controller.configs.policies import Policies, policies_of
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.controller import Controller, ControllerSettings
from trimaran.quorum.controller.handlers.registry import controller_registry
from trimaran.quorum.controller.nodes.registrar import Registrar
from trimaran.quorum.formatting.storage import read_bootstrap
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft_log.last_image import last_image
from trimaran.quorum.replica.configured import (
    check_metadata,
    identity_of,
    open_log,
    snapshot_of,
    snapshots_of,
    timeouts_of,
)
from trimaran.quorum.replica.node import NodeSettings, QuorumNode
from trimaran.quorum.serving.accounts import Accounts
from trimaran.quorum.serving.altered_connections import AlteredConnections, connections_of
from trimaran.quorum.serving.altered_security import AlteredSecurity
from trimaran.quorum.serving.authorization import authorizer_of
from trimaran.quorum.serving.idle_configs import IdleConfigs
from trimaran.wire.identity import NO_BROKER_EPOCH, Address, NodeId
from trimaran.wire.schema import Message
from trimaran.wire.security.sasl.scram import SCRAM_DIGESTS
from trimaran.wire.text.endpoint import Endpoint
from trimaran.wire.transport.metrics.rate import Windows
from trimaran.wire.transport.server.server import Listener, Server, serve_listener

log = logging.getLogger(__name__)

# The time that a stopping leader waits for a successor, and then for pending responses. An election takes a tenth of
# it; if all controllers stop together, the last ones wait in vain.
HAND_OVER_SECONDS = 0.5
DRAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunningController:
    """The value that `run_controller` reports when it is ready; a broker in the same process shares node, loader and
    directory.
    """

    node_id: NodeId
    addresses: Mapping[str, Address]  # listener name -> bound address
    node: QuorumNode
    loader: MetadataLoader
    directory: LogDirectory
    context: ControllerContext
    server: Server
    group_commit: GroupCommit


@dataclass(frozen=True, slots=True)
class _Parts:
    """All parts of the controller."""

    config: ServerConfig
    directory: LogDirectory
    group_commit: GroupCommit
    node: QuorumNode
    registrar: Registrar
    altered: AlteredSecurity
    connections: AlteredConnections
    listeners: Sequence[Listener]
    context: ControllerContext


@dataclass(frozen=True, slots=True)
class _ControllerAccess:
    """The authentication and authorization of clients."""

    authorizer: Authorizer | None
    accounts: Accounts
    logins: Logins
    policies: Policies


async def run_controller(
    config: ServerConfig,
    *,
    sockets: Mapping[str, socket.socket] | None = None,
    task_status: trio.TaskStatus[RunningController] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a controller until cancelled; it hands over leadership before it ends.

    `sockets` are bound already, by listener name.

    Raises:
        ConfigError, MetaPropertiesError, DirectoryLocked, SnapshotDamaged, LogDamaged, OSError: the controller cannot
            start; the message gives the reason.
        MetadataTooNew: the quorum's level is unknown to this version; this may also be raised later, while the
        controller is running. StorageFailure: the directory went offline. InvariantViolated: the controller must not
        continue.
    """
    parts = _compose(config, sockets)
    await run_gracefully(partial(_run, parts, task_status))


def _compose(config: ServerConfig, sockets: Mapping[str, socket.socket] | None) -> _Parts:
    # Configs are checked before any resource is opened.
    authorizer, policies = authorizer_of(config), policies_of(config)
    check_metadata(config)
    directory = _open_directory(config.metadata_directory, config.node_id)
    accounts = Accounts(config["delegation.token.secret.key"])
    logins = Logins(accounts.find)
    listeners = bind(config, config.controller_listeners, sockets, logins)
    with closed_on_failure(listeners):
        return _composed(
            config, _ControllerAccess(authorizer, accounts, logins, policies), directory, listeners
        )


def _composed(
    config: ServerConfig,
    gate: _ControllerAccess,
    directory: LogDirectory,
    listeners: Sequence[Listener],
) -> _Parts:
    security = controller_security(config)
    endpoints = _advertised(config, listeners)
    metadata_log = open_log(config, directory)
    bootstrap = read_bootstrap(directory.path)
    if _log_in_by_scram(listeners):
        gate.accounts.use_image(last_image(metadata_log, bootstrap))
    group_commit = GroupCommit(directory.health)
    loader = MetadataLoader()
    cluster_id = directory.meta_properties.cluster_id
    controller = Controller(_settings(config, directory, bootstrap), loader, gate.policies)
    node = QuorumNode(
        NodeSettings(
            identity_of(config, directory, endpoints),
            timeouts_of(config),
            snapshots_of(config),
            client_id=f"controller-{config.node_id}",
            security=security,
        ),
        metadata_log,
        controller,
        directory=metadata_log.log.directory,
        group_commit=group_commit,
    )
    controller.node = node
    node.snapshotter.source = lambda: snapshot_of(loader)
    registrar = Registrar(
        config.node_id, uuid4().bytes, endpoints, node.leader, node.address_of, security
    )
    clients = [(security, controller_security)]
    altered = AlteredSecurity(config, listeners, clients, gate.logins)
    mutations = _mutation_quotas(config)
    connections = connections_of(config, config.controller_listeners, AddressBook())
    idle = IdleConfigs(config.node_id)
    loader.add_publisher(gate.accounts, registrar, altered, connections, idle, mutations)
    if gate.authorizer is not None:
        loader.add_publisher(gate.authorizer)
    context = ControllerContext(
        config, cluster_id, node, controller, gate.authorizer, mutations=mutations
    )
    return _Parts(
        config, directory, group_commit, node, registrar, altered, connections, listeners, context
    )


def _mutation_quotas(config: ServerConfig) -> MutationQuotas:
    number = config["controller.quota.window.num"]
    return MutationQuotas(Windows(number, config["controller.quota.window.size.seconds"]))


def _log_in_by_scram(listeners: Sequence[Listener]) -> bool:
    """Returns whether controllers log in by SCRAM: their credentials must then be known before the metadata log can be
    read.
    """
    offered = (
        listener.security.sasl.mechanisms
        for listener in listeners
        if listener.security.sasl is not None
    )
    return any(SCRAM_DIGESTS.keys() & mechanisms for mechanisms in offered)


def _open_directory(path: Path, node_id: NodeId) -> LogDirectory:
    directory = LogDirectory(path, now_ms=now_ms)
    try:
        directory.meta_properties.check(path, cluster_id=None, node_id=node_id)
    except BaseException:
        directory.close(broker_epoch=None)
        raise
    return directory


def _settings(
    config: ServerConfig, directory: LogDirectory, bootstrap: Sequence[Message]
) -> ControllerSettings:
    balance = config["auto.leader.rebalance.enable"]
    return ControllerSettings(
        cluster_id=directory.meta_properties.cluster_id,
        config=config,
        bootstrap=bootstrap,
        session=config["broker.session.timeout.ms"] / 1000,
        idle=config["metadata.max.idle.interval.ms"] / 1000,
        balance=config["leader.imbalance.check.interval.seconds"] if balance else 0.0,
        unclean=config["unclean.leader.election.interval.ms"] / 1000,
        token_sweep=config["delegation.token.expiry.check.interval.ms"] / 1000
        if config["delegation.token.secret.key"]
        else 0.0,
        prng=random.Random(),
    )


def _advertised(config: ServerConfig, listeners: Sequence[Listener]) -> list[Endpoint]:
    """Returns the advertised endpoints: replaces port 0 by the bound port, and an empty host by the name of this
    machine.
    """
    ports = {listener.name: listener.address[1] for listener in listeners}
    return [
        advertised_controller_listener._replace(
            host=advertised_controller_listener.host or socket.getfqdn(),
            port=advertised_controller_listener.port or ports[advertised_controller_listener.name],
        )
        for advertised_controller_listener in config.advertised_controller_listeners
    ]


async def _run(
    parts: _Parts, task_status: trio.TaskStatus[RunningController], stop: trio.Event
) -> None:
    """Runs all parts that must keep working while leadership is handed over."""
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(parts.group_commit.run)
            await nursery.start(parts.node.run)
            nursery.start_soon(parts.context.controller.run)
            nursery.start_soon(_complete_initial_load, parts)
            nursery.start_soon(parts.connections.book.run)
            server: Server = await nursery.start(_serve, parts)
            nursery.start_soon(parts.registrar.run)
            nursery.start_soon(parts.altered.run)
            task_status.started(_running(parts, server))
            events.CONTROLLER_STARTED.log(log, node=parts.config.node_id)
            await stop.wait()
            await _hand_over(parts, server)
            nursery.cancel_scope.cancel()
        await run_blocking(_close_directory, parts.directory)
        events.CONTROLLER_STOPPED.log(log, node=parts.config.node_id)
    finally:
        close_all(parts.listeners)


def _running(parts: _Parts, server: Server) -> RunningController:
    return RunningController(
        node_id=parts.config.node_id,
        addresses=server.addresses,
        node=parts.node,
        loader=parts.context.controller.loader,
        directory=parts.directory,
        context=parts.context,
        server=server,
        group_commit=parts.group_commit,
    )


async def _complete_initial_load(parts: _Parts) -> None:
    """Completes the authorizer's load. Until then other controllers vote and fetch here, before this node knows all
    ACLs.
    """
    if parts.context.authorizer is None:
        return
    with suppress(NotLeaderError):  # the node stopped before it had caught up
        await parts.node.wait_caught_up()
        parts.context.authorizer.complete_initial_load()


async def _serve(
    parts: _Parts, *, task_status: trio.TaskStatus[Server] = trio.TASK_STATUS_IGNORED
) -> None:
    await serve_listener(
        parts.listeners,
        controller_registry(),
        parts.context,
        limits=limits_of(parts.config),
        quotas=parts.connections.quotas,
        task_status=task_status,
    )


async def _hand_over(parts: _Parts, server: Server) -> None:
    others = parts.node.voters.others(parts.node.settings.identity.key)
    await parts.node.stop(HAND_OVER_SECONDS if others else 0.0)
    await server.drain(DRAIN_SECONDS)


def _close_directory(directory: LogDirectory) -> None:
    directory.close(broker_epoch=NO_BROKER_EPOCH)
