"""`ps`: shows the nodes of the local cluster, without the imports that starting one needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.output import Format, say, show_data, show_rows
from trimaran.errors.user_error import Exit
from trimaran.fault_control import listening
from trimaran.local import orphans, readiness, start_failure, state_file


def ps(*, data: Data = DEFAULT_DATA, output: Format = "table") -> int:
    """Shows the nodes of the local cluster. Exit code 1 if one of them is not running."""
    path = state_file.nearest(data)
    state = readiness.roles_now(state_file.read(path))
    show_nodes(state, output)
    if orphans.orphans_of(state):
        say(
            f"the supervisor is not running; stop the remaining processes with: trimaran down --data {data}"
        )
    for node in state_file.plan_of(path, state).nodes:
        found = state.node(node.name)
        if (
            found is not None
            and found.state == "dead"
            and (why := start_failure.error_at_its_end(node.log_file))
        ):
            say(f"{node.name} stopped by itself: {why}; see {node.log_file}")
    return Exit.NO if any(node.pid is None for node in state.nodes) else Exit.OK


def show_nodes(
    state: state_file.ClusterState, output: str, control: listening.ReadyControl | None = None
) -> None:
    """Prints a row for each node; as data also the addresses to connect to, and the control of faults, if given."""
    faults = {} if control is None else {"faults": asdict(control)}
    if not show_data(_as_json(state) | faults, output):
        show_rows([asdict(node) for node in state.nodes], "table", columns=_columns(state))


def console_url(state: state_file.ClusterState) -> str | None:
    console = next((node for node in state.nodes if node.role == "console"), None)
    return None if console is None else f"http://{console.address}/"


def _as_json(state: state_file.ClusterState) -> dict[str, Any]:
    return {
        "cluster_id": state.cluster_id,
        "bootstrap": state.bootstrap,
        "controller_bootstrap": state.controller_bootstrap,
        "zookeeper": state.zookeeper,
        "console": console_url(state),
        "nodes": [asdict(node) for node in state.nodes],
    }


def _columns(state: state_file.ClusterState) -> list[str]:
    """Returns the columns, with addresses of metrics only if there are any."""
    metrics = ["metrics"] if any(node.metrics != "-" for node in state.nodes) else []
    return ["role", "id", "address", *metrics, "dir", "pid", "state"]
