"""`chaos kill|restart|pause|resume NODE`: break nodes of the local cluster and watch it cope. NODE is an id, a name or
`leader`.
"""

from __future__ import annotations

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.output import say
from trimaran.errors import Exit, UserError
from trimaran.local import control, state_file
from trimaran.local.readiness import active_controller


def kill(node: str, *, data: Data = DEFAULT_DATA) -> int:
    """Kill -9 a node."""
    return _send("kill", node, data, "killed")


def restart(node: str, *, data: Data = DEFAULT_DATA) -> int:
    """Stops a node cleanly if it runs, then starts it on its directory."""
    return _send("restart", node, data, "started")


def pause(node: str, *, data: Data = DEFAULT_DATA) -> int:
    """Freezes a node: its sockets stay open and it says nothing."""
    return _send("pause", node, data, "paused")


def resume(node: str, *, data: Data = DEFAULT_DATA) -> int:
    """Lets a frozen node go on."""
    return _send("resume", node, data, "resumed")


def _send(command: str, node: str, data: Data, done: str) -> int:
    state = state_file.read(state_file.nearest(data))
    if not state.is_up():
        raise UserError(
            f"the cluster in {data} is not running",
            "there is no supervisor to carry it out",
            f"start it with: trimaran up -d --data {data}",
        )
    name = str(active_controller(state)) if node == "leader" else node
    found = state.node(name)
    if found is None:
        raise UserError(
            f"there is no node '{node}'",
            "nodes are "
            + ", ".join(n.name if n.id is None else f"{n.id} ({n.role})" for n in state.nodes),
            f"trimaran chaos {command} leader, or name an id",
            exit_code=Exit.USAGE,
        )
    answer = control.ask(state.control, command, node=found.name)
    say(f"{done} {found.name} (pid {answer.get('pid')})")
    return Exit.OK
