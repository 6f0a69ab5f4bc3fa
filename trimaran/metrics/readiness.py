"""Conditions that a node lacks before it may get work: sentences for people, in the response of /readyz."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimaran.broker.process.server import RunningBroker
    from trimaran.quorum.controller.server import RunningController


def lacking_to_controller(controller: RunningController | None) -> list[str]:
    """Nothing for one that knows who leads; `controller` is None until it serves."""
    if controller is None:
        return ["the controller is starting"]
    if controller.node.leader.value.leader_id is None:
        return ["the controller knows no leader of the quorum"]
    return []


def lacking_to_broker(broker: RunningBroker | None) -> list[str]:
    """Nothing for one that is not fenced; `broker` is None until it serves."""
    if broker is None:
        return ["the broker is starting"]
    known = broker.context.metadata.image.cluster.brokers.get(broker.node_id)
    if known is None or known.fenced:
        return ["the broker is fenced"]
    if known.in_controlled_shutdown:
        return ["the broker is shutting down"]
    return []
