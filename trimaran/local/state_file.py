"""`cluster.json`: what a local cluster consists of and who runs, for people, scripts and the command line.

The supervisor writes it after every change, by rename, so that a reader always sees a whole file.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trimaran.errors import Exit, UserError
from trimaran.local.layout import ClusterPlan, NodePlan

FILE_NAME = "cluster.json"
TEMPORARY_NAME = FILE_NAME + ".tmp"


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node as scripts see it. `started` is the kernel's start time of `pid`: together they name a
    process for good.
    """

    id: int | None
    name: str
    role: str
    address: str
    pid: int | None
    started: int | None
    dir: str
    state: str
    metrics: str = "-"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The content of `cluster.json`."""

    cluster_id: str
    bootstrap: str
    controller_bootstrap: str
    zookeeper: str | None
    control: str
    supervisor_pid: int
    supervisor_started: int | None
    settings: dict[str, str]
    nodes: tuple[NodeState, ...]
    static_quorum: bool = True  # where nothing is written: what there was before the choice

    def node(self, name: str) -> NodeState | None:
        """The node called by name (`broker-11`) or id (`11`)."""
        return next((n for n in self.nodes if name in {n.name, str(n.id)}), None)

    def is_up(self) -> bool:
        return is_alive(self.supervisor_pid, self.supervisor_started)


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which the process started (`/proc/PID/stat`, field 22); None where the kernel does not
    say.
    """
    fields = _stat_after_name(pid)
    return int(fields[19]) if fields else None


def _stat_after_name(pid: int) -> list[str]:
    """Fields 3 and up of `/proc/PID/stat`; the name before them may hold blanks and parentheses."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def is_alive(pid: int, started: int | None) -> bool:
    """Whether this very process still runs: not another one that took its number, nor one that only waits
    to be reaped.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return started is None
    fields = _stat_after_name(pid)
    return not fields or (fields[0] != "Z" and started in (None, int(fields[19])))


def write(data: Path, state: ClusterState) -> None:
    """Replaces `cluster.json`."""
    temporary = data / TEMPORARY_NAME
    temporary.write_text(json.dumps(asdict(state), indent=2) + "\n")
    temporary.replace(data / FILE_NAME)


def nearest(data: Path) -> Path:
    """Where the local cluster lies that commands mean: `data`, or its namesake in the nearest directory above that has
    one, as git finds its repository.
    """
    path = data.resolve()
    for parent in path.parent.parents:
        if (path / FILE_NAME).exists():
            break
        if (parent / data.name / FILE_NAME).exists():
            return parent / data.name
    return path


def read(data: Path) -> ClusterState:
    """Reads `cluster.json`; a UserError where there is no cluster, or somebody else wrote the file."""
    try:
        return as_seen_now(_parse((data / FILE_NAME).read_text()))
    except FileNotFoundError:
        raise UserError(
            f"no local cluster in {data}",
            f"{data / FILE_NAME} does not exist",
            f"start one with: trimaran up --data {data}",
            exit_code=Exit.USAGE,
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{data / FILE_NAME} is not what trimaran up wrote",
            f"{type(error).__name__}: {error}",
            "restore it from a backup; or delete the directory, and the cluster with it",
        ) from error


def _parse(text: str) -> ClusterState:
    raw = json.loads(text)
    nodes = tuple(NodeState(**node) for node in raw.pop("nodes"))
    return ClusterState(nodes=nodes, **raw)


def as_seen_now(state: ClusterState) -> ClusterState:
    """The same state with what the supervisor could not write: it was killed, or its disk is full.

    Nodes that are gone are `dead`; without a supervisor, which would have stopped them, they are `stopped`.
    """
    is_up = state.is_up()

    def seen(node: NodeState) -> NodeState:
        if node.pid is not None:
            is_gone = not is_alive(node.pid, node.started)
        else:
            is_gone = not is_up
        return replace(node, pid=None, state="dead" if is_up else "stopped") if is_gone else node

    return replace(state, nodes=tuple(map(seen, state.nodes)))


def plan_of(data: Path, state: ClusterState) -> ClusterPlan:
    """The plan of a cluster that was started before, so that `up` starts the same one again."""

    def port(address: str) -> int | None:
        return None if address == "-" else int(address.rpartition(":")[2])

    nodes = (
        NodePlan(n.name, n.role, n.id, port(n.address), data / n.name, port(n.metrics))
        for n in state.nodes
    )
    return ClusterPlan(data, state.cluster_id, tuple(nodes), state.settings, state.static_quorum)


def remove(data: Path) -> None:
    """Forgets the cluster."""
    with contextlib.suppress(FileNotFoundError):
        (data / FILE_NAME).unlink()
