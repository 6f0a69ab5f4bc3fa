"""Nodes that outlived their supervisor (which was killed with SIGKILL): identified by pid and start time, stopped
without it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trimaran.local import state_file
from trimaran.local.layout import STOP_ORDER, STOP_SECONDS_MAX
from trimaran.local.state_file import ClusterState, NodeState, is_alive

KILL_SECONDS_MAX = 5.0
POLL_SECONDS = 0.02


def orphans_of(state: ClusterState) -> list[NodeState]:
    """Returns the nodes that run although the supervisor does not."""
    return [] if state.is_up() else [node for node in state.nodes if _runs(node)]


def stop_orphans(data: Path, state: ClusterState) -> None:
    """Stops them as the supervisor would, and records that all nodes are stopped."""
    for role in STOP_ORDER:
        nodes = [node for node in orphans_of(state) if node.role == role]
        _signal(nodes, signal.SIGCONT, signal.SIGTERM)
        _wait_gone(nodes, STOP_SECONDS_MAX)
        _signal(nodes, signal.SIGKILL)
        _wait_gone(nodes, KILL_SECONDS_MAX)
    nodes = [replace(node, pid=None, started=None, state="stopped") for node in state.nodes]
    state_file.write(data, replace(state, nodes=tuple(nodes)))


def _runs(node: NodeState) -> bool:
    return node.pid is not None and is_alive(node.pid, node.started)


def _signal(nodes: Sequence[NodeState], *numbers: int) -> None:
    for node in nodes:
        for number in numbers:
            if node.pid is not None and _runs(node):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(node.pid, number)


def _wait_gone(nodes: Sequence[NodeState], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(_runs(node) for node in nodes) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
