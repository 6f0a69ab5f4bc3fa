"""`chaos kill|restart|pause|resume|isolate NODE`, `chaos partition SIDE SIDE`, `chaos heal`: break a local cluster and
watch it recover. NODE is an id, a name or `leader`; a SIDE is a list of them, separated by commas.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.connect import DEFAULT_DATA, Data, DryRun
from trimaran.cli.output import say
from trimaran.cli.progress import progress
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import control, links, readiness, state_file
from trimaran.node.text.wording import counted

Node = Annotated[
    str, Parameter(help="An id (11), a name (broker-11), or leader for the active controller.")
]


def kill(node: Node, *, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Kills a node with SIGKILL, as kill -9."""
    return _send("kill", node, data, "killed", dry_run=dry_run)


def restart(node: Node, *, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Stops a node cleanly if it runs, starts it again with its data, and waits until it serves."""
    return _send("restart", node, data, "started", dry_run=dry_run)


def pause(node: Node, *, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Freezes a node with SIGSTOP: its connections stay open, and it does not answer."""
    return _send("pause", node, data, "paused", dry_run=dry_run)


def resume(node: Node, *, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Continues a frozen node with SIGCONT."""
    return _send("resume", node, data, "resumed", dry_run=dry_run)


def isolate(node: Node, *, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Cuts a node off from all other nodes, until chaos heal; clients still reach it."""
    state = _running(data)
    alone = _named(state, node)
    others = [
        each_node.name
        for each_node in state.nodes
        if each_node.role in links.ROLES and each_node.name != alone.name
    ]
    control.ask(state.control, "partition", sides=[[alone.name], others], dry_run=dry_run)
    say(f"{'would isolate' if dry_run else 'isolated'} {alone.name} from {', '.join(others)}")
    return Exit.OK


def partition(*sides: str, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Cuts the links between groups of nodes, until chaos heal: trimaran chaos partition 1,11 2,3,12,13.

    Nodes that are not named still reach all other nodes. Clients reach every node. A further partition adds to earlier
    ones.

    Args:
        sides: Groups of nodes that still reach each other, separated by commas: 1,11.
    """
    state = _running(data)
    named = [[_named(state, part).name for part in side.split(",")] for side in sides]
    response = control.ask(state.control, "partition", sides=named, dry_run=dry_run)
    cut = f"{'would cut' if dry_run else 'cut'} {counted(response['links'], 'link')}"
    say(f"{cut} between {' | '.join(map(', '.join, named))}")
    return Exit.OK


def heal(*, dry_run: DryRun = False, data: Data = DEFAULT_DATA) -> int:
    """Restores all links that chaos isolate and chaos partition have cut."""
    control.ask(_running(data).control, "heal", dry_run=dry_run)
    say(f"all nodes {'would reach' if dry_run else 'reach'} each other again")
    return Exit.OK


def _send(command: str, node: str, data: Data, done: str, *, dry_run: bool) -> int:
    state = _running(data)
    found = _named(state, node)
    with progress(f"{command} {found.name}"):
        response = control.ask(state.control, command, node=found.name, dry_run=dry_run)
        if command == "restart" and not dry_run:
            nodes = state_file.plan_of(state_file.nearest(data), state).nodes
            plan = next(plan for plan in nodes if plan.name == found.name)
            readiness.wait_until_serving(state.control, plan)
    pid = "not running" if response.get("pid") is None else f"pid {response['pid']}"
    say(f"{f'would {command}' if dry_run else done} {found.name} ({pid})")
    return Exit.OK


def _running(data: Data) -> state_file.ClusterState:
    state = state_file.read(state_file.nearest(data))
    if not state.is_up():
        raise UserError(
            f"the cluster in {data} is not running",
            "its supervisor, which would do it, is not running",
            f"start it with: trimaran up -d --data {data}",
        )
    return state


def _named(state: state_file.ClusterState, node: str) -> state_file.NodeState:
    name = str(readiness.active_controller(state)) if node == "leader" else node
    found = state.node(name)
    if found is None:
        raise UserError(
            f"there is no node '{node}'",
            "the nodes are "
            + ", ".join(n.name if n.id is None else f"{n.id} ({n.role})" for n in state.nodes),
            "name one of them by id or name, or leader",
            exit_code=Exit.USAGE,
        )
    return found
