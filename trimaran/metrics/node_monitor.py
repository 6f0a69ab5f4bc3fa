"""Monitoring of a node: all its metrics at one moment, and its readiness."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from trimaran.metrics.clients import client_metrics
from trimaran.metrics.cluster import ClusterCounts
from trimaran.metrics.elections import ELECTION_METRICS, ElectionCounts
from trimaran.metrics.families import Families, families
from trimaran.metrics.flushes import flush_metrics
from trimaran.metrics.groups import group_metrics
from trimaran.metrics.loop_times import LoopTimes
from trimaran.metrics.mirror import mirror_metrics
from trimaran.metrics.process import LOOP_METRICS
from trimaran.metrics.raft import (
    ACTIVE_METRICS,
    broker_metadata_metrics,
    controller_metadata_metrics,
    raft_metrics,
)
from trimaran.metrics.replicas import replica_metrics
from trimaran.metrics.requests import connection_metrics, request_metrics
from trimaran.metrics.serving import address_of, serving_metrics
from trimaran.metrics.shares import share_metrics
from trimaran.metrics.topics import topic_metrics
from trimaran.quorum.controller.server import RunningController
from trimaran.wire.transport.scheduling.loop_turns import loop_turns

if TYPE_CHECKING:
    from trimaran.broker.process.server import RunningBroker
    from trimaran.node.config.server import ServerConfig
    from trimaran.zkcompat.mirroring.mirror import Mirror


@asynccontextmanager
async def node_with_metrics(config: ServerConfig) -> AsyncIterator[NodeMonitor]:
    """Serves the metrics of a node within the block, from before its roles start.

    Raises ConfigError and OSError for `trimaran.metrics.listener`.
    """
    address = address_of(config["trimaran.metrics.listener"])
    assert address is not None, "metrics are switched on"
    monitor = NodeMonitor(config)
    with monitor.loop_times.counting():
        async with serving_metrics(address, monitor):
            yield monitor


class NodeMonitor:
    """A `Monitor` of the roles that have started in this process; created inside the trio run."""

    def __init__(self, config: ServerConfig) -> None:
        self.loop_times = LoopTimes(loop_turns())
        self._config = config
        self._controller: RunningController | None = None
        self._broker: RunningBroker | None = None
        self._mirror: Mirror | None = None
        self._cluster = ClusterCounts()
        self._elections = ElectionCounts()

    def started(self, role: RunningController | RunningBroker) -> None:
        """Records that a role serves; a broker also names the controller in the same process."""
        if isinstance(role, RunningController):
            self._controller = role
        else:
            self._broker = role
            self._controller = role.controller
        if self._controller is not None:
            self._elections.follow(self._controller.loader)

    def mirrors(self, mirror: Mirror) -> None:
        """Sets the mirror that the controller runs."""
        self._mirror = mirror

    def why_not_ready(self) -> list[str]:
        """Returns the missing conditions, a sentence each; nothing for a node that is ready."""
        missing = []
        if self._config.is_controller:
            missing += lacking_to_controller(self._controller)
        if self._config.is_broker:
            missing += lacking_to_broker(self._broker)
        return missing

    def families(self) -> Families:
        """Yields all metrics at this moment."""
        controller, broker = self._controller, self._broker
        yield from families(LOOP_METRICS, self.loop_times)
        servers = [role.server for role in (controller, broker) if role is not None]
        if servers:
            yield from request_metrics(servers)
            yield from connection_metrics(servers)
            yield from _raft_metrics(controller, broker)
            yield from flush_metrics(controller, broker)
        if controller is not None:
            yield from self._controller_metrics(controller)
        if broker is not None:
            yield from _broker_metrics(broker)
        if self._mirror is not None:
            yield from mirror_metrics(self._mirror)

    def _controller_metrics(self, controller: RunningController) -> Families:
        yield from families(ACTIVE_METRICS, controller.context.controller.is_active)
        yield from controller_metadata_metrics(controller.loader.image, controller.node)
        yield from self._cluster.metrics(controller.loader.image)
        yield from families(ELECTION_METRICS, self._elections)


def _raft_metrics(controller: RunningController | None, broker: RunningBroker | None) -> Families:
    """Yields the metrics of the metadata replica; a broker in the same process uses the controller's replica."""
    if controller is not None:
        yield from raft_metrics(controller.node)
    elif broker is not None:
        yield from raft_metrics(broker.parts.quorum.node)


def _broker_metrics(broker: RunningBroker) -> Families:
    families, contexts = broker.parts.families, broker.contexts
    yield from broker_metadata_metrics(broker.parts.metadata.image, broker.parts.quorum.node)
    yield from topic_metrics(families.data.partitions.traffic)
    yield from replica_metrics(contexts.directories, contexts.data.throttles)
    yield from group_metrics(families.groups)
    yield from share_metrics(families.shares)
    clients = contexts.administration.client_metrics
    if clients is not None:
        yield from client_metrics(clients)


def lacking_to_controller(controller: RunningController | None) -> list[str]:
    """Returns readable sentences for the response of /readyz; none for a node that knows the leader. `controller` is
    None until it serves.
    """
    if controller is None:
        return ["the controller is starting"]
    if controller.node.leader.value.leader_id is None:
        return ["the controller knows no leader of the quorum"]
    return []


def lacking_to_broker(broker: RunningBroker | None) -> list[str]:
    """Returns readable sentences for the response of /readyz; none for a broker that is not fenced. `broker` is None
    until it serves.
    """
    if broker is None:
        return ["the broker is starting"]
    known = broker.parts.metadata.image.cluster.brokers.get(broker.node_id)
    if known is None or known.fenced:
        return ["the broker is fenced"]
    if known.in_controlled_shutdown:
        return ["the broker is shutting down"]
    return []
