"""All metrics of a node, at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from node.runtime.cumulative_histogram import CumulativeHistogram
from trimaran.metrics.cluster import ClusterCounts
from trimaran.metrics.elections import ElectionCounts
from trimaran.metrics.families import Families, gauge, histogram
from trimaran.metrics.groups import group_metrics
from trimaran.metrics.monitored_node import MonitoredNode
from trimaran.metrics.process import loop_metrics
from trimaran.metrics.raft import controller_metadata_metrics, metadata_metrics, raft_metrics
from trimaran.metrics.replicas import replica_metrics
from trimaran.metrics.requests import connection_metrics, request_metrics
from trimaran.metrics.topics import topic_metrics
from wire.transport.events import yield_to_loop

if TYPE_CHECKING:
    from broker.process.server import RunningBroker
    from node.runtime.group_commit import GroupCommit
    from quorum.controller.server import RunningController


class Collector:
    """Reads the state of one node. On the loop, a little in each turn of it."""

    def __init__(self, state: MonitoredNode) -> None:
        self._state = state
        self._cluster = ClusterCounts()
        self._elections = ElectionCounts()
        self._follows = False

    def follow_elections(self) -> None:
        """To be called when a role has started; counts those of the controller's metadata from then on."""
        controller = self._state.controller
        if controller is not None and not self._follows:
            self._follows = True
            controller.loader.add_publisher(self._elections)

    async def collect(self) -> list[Metric]:
        found = []
        for family in self._families():
            if family is None:
                await yield_to_loop()
            else:
                found.append(family)
        return found

    def _families(self) -> Families:
        state = self._state
        yield from loop_metrics(state.loop_times)
        servers = [one.server for one in (state.controller, state.broker) if one is not None]
        if servers:
            yield from request_metrics(servers)
            yield from connection_metrics(servers)
            yield from _raft_metrics(state)
            yield histogram(
                "trimaran_fsync_seconds",
                "Time of a round of fsync, of all that was appended before it.",
                _all_rounds(state),
            )
        if state.controller is not None:
            yield from self._controller_metrics(state.controller)
        if state.broker is not None:
            yield from _broker_metrics(state.broker)

    def _controller_metrics(self, controller: RunningController) -> Families:
        yield gauge(
            "kafka_controller_kafkacontroller_activecontrollercount",
            "1 for the active controller, else 0.",
            controller.context.controller.is_active,
        )
        yield from controller_metadata_metrics(controller.loader.image, controller.node)
        yield from self._cluster.metrics(controller.loader.image)
        yield from self._elections.metrics()


def _raft_metrics(state: MonitoredNode) -> Families:
    """A broker beside a controller uses its replica."""
    if state.controller is not None:
        yield from raft_metrics(state.controller.node)
    elif state.broker is not None:
        yield from raft_metrics(state.broker.parts.quorum.node)


def _broker_metrics(broker: RunningBroker) -> Families:
    ctx = broker.context
    yield from metadata_metrics(ctx.metadata.image, broker.parts.quorum.node)
    yield from topic_metrics(ctx.partitions.traffic)
    yield from replica_metrics(ctx)
    yield from group_metrics(ctx.groups)


def _all_rounds(state: MonitoredNode) -> CumulativeHistogram:
    total = CumulativeHistogram()
    for one in {id(commit): commit for commit in _commits(state)}.values():
        total.add(one.times)
    return total


def _commits(state: MonitoredNode) -> Iterator[GroupCommit]:
    if state.controller is not None:
        yield state.controller.group_commit
    if state.broker is not None:
        yield state.broker.parts.storage.metadata_commit
        yield from state.broker.parts.storage.commits.values()
