"""The roles that run in this process, as far as they have started, and whether they are ready for work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimaran.metrics.loop_times import LoopTimes

if TYPE_CHECKING:
    from broker.process.server import RunningBroker
    from node.config.server import ServerConfig
    from quorum.controller.server import RunningController


@dataclass(slots=True)
class MonitoredNode:
    """Roles that have not started are None."""

    config: ServerConfig
    loop_times: LoopTimes = field(default_factory=LoopTimes)
    controller: RunningController | None = None
    broker: RunningBroker | None = None

    def started(self, role: RunningController | RunningBroker | None) -> None:
        """A role serves; a broker names the controller that runs beside it."""
        from broker.process.server import RunningBroker
        from quorum.controller.server import RunningController

        if isinstance(role, RunningController):
            self.controller = role
        elif isinstance(role, RunningBroker):
            self.broker = role
            self.controller = role.controller

    def why_not_ready(self) -> list[str]:
        """What is missing, a sentence each; nothing for a node that is ready."""
        missing = []
        if self.config.is_controller:
            missing += _of_controller(self.controller)
        if self.config.is_broker:
            missing += _of_broker(self.broker)
        return missing


def _of_controller(controller: RunningController | None) -> list[str]:
    if controller is None:
        return ["the controller is starting"]
    if controller.node.leader.value.leader_id is None:
        return ["the controller knows no leader of the quorum"]
    return []


def _of_broker(broker: RunningBroker | None) -> list[str]:
    if broker is None:
        return ["the broker is starting"]
    known = broker.context.metadata.image.cluster.brokers.get(broker.node_id)
    if known is None or known.fenced:
        return ["the broker is fenced"]
    if known.in_controlled_shutdown:
        return ["the broker is shutting down"]
    return []
