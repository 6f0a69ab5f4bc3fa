"""Adds nodes to a running cluster: its supervisor starts them; the command waits until they serve."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from trimaran.local import control, state_file
from trimaran.local.growing import Growth
from trimaran.local.layout import NodePlan
from trimaran.local.readiness import NO_RESPONSE, POLL_SECONDS, READY_SECONDS_MAX, Acquaintance
from trimaran.local.start_failure import StoppedWhileStarting, died_while_starting
from trimaran.local.state_file import ClusterState
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest

_UNDONE = "it was removed again"


def grow_running(data: Path, state: ClusterState, growth: Growth) -> list[str]:
    """Returns the names of the added nodes, once they serve and all running brokers know each other.

    If that fails, or is interrupted, they are stopped and removed again.

    Raises:
        UserError: the supervisor refused, or a node did not start, with the reason.
    """
    names: list[str] = control.ask(state.control, "grow", growth=growth.as_json())["nodes"]
    try:
        _wait(data, names)
    except BaseException:
        control.ask(state.control, "shrink", nodes=names)
        _unregister(
            state, [BrokerId(name.partition("-")[2]) for name in names if "broker-" in name]
        )
        raise
    return names


def _wait(data: Path, names: list[str]) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while (late := _late(data, state := _state(data), names)) is not None:
        if time.monotonic() > deadline:
            raise died_while_starting(late, _UNDONE)
        time.sleep(POLL_SECONDS)
    brokers = [node for node in state.nodes if node.role == "broker" and node.state == "running"]
    acquaintance = Acquaintance({node.address: node.id for node in brokers}, READY_SECONDS_MAX)
    while not acquaintance.made():
        _state(data)
        time.sleep(POLL_SECONDS)


def _state(data: Path) -> ClusterState:
    state = state_file.read(data)
    if not state.is_up():
        raise StoppedWhileStarting
    return state


def _late(data: Path, state: ClusterState, names: list[str]) -> NodePlan | None:
    """Returns the first node that does not serve yet; raises UserError if one ended instead."""
    plans = {node.name: node for node in state_file.plan_of(data, state).nodes}
    states = {node.name: node.state for node in state.nodes}
    for name in names:
        if states[name] == "dead":
            raise died_while_starting(plans[name], _UNDONE)
    return next((plans[name] for name in names if states[name] == "starting"), None)


def _unregister(state: ClusterState, brokers: list[BrokerId]) -> None:
    """Unregisters brokers, so that no command waits for them; most that fail have not registered."""
    with (
        contextlib.suppress(*NO_RESPONSE, KafkaError),
        BlockingClient(state.bootstrap, timeout=READY_SECONDS_MAX) as client,
    ):
        for broker in brokers:
            client.call(None, UnregisterBrokerRequest(broker_id=broker))
