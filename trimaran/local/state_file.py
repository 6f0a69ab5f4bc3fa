"""`cluster.json`: the parts of a local cluster and the running nodes, for users, scripts and the command line.

The supervisor writes it after every change, by rename, so that a reader always sees a complete file.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trimaran.errors.user_error import Exit, UserError
from trimaran.local.layout import ROLES, ClusterPlan, NodePlan
from trimaran.local.private_files import reason_for_distrust, write_private
from trimaran.wire.identity import NodeId

FILE_NAME = "cluster.json"
TEMPORARY_NAME = FILE_NAME + ".tmp"


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node as scripts see it. `started` is the kernel's start time of `pid`: together they identify a process
    uniquely.
    """

    id: NodeId | None
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
    static_quorum: bool = True  # the default for files from before this choice

    def node(self, name: str) -> NodeState | None:
        """Returns the node with this name (`broker-11`) or id (`11`)."""
        return next((n for n in self.nodes if name in {n.name, str(n.id)}), None)

    def is_up(self) -> bool:
        return is_alive(self.supervisor_pid, self.supervisor_started)


def start_time(pid: int) -> int | None:
    """Returns the start time of the process in clock ticks after boot (`/proc/PID/stat`, field 22); None if there is no
    such process.
    """
    fields = _stat_after_name(pid)
    return int(fields[19]) if fields else None


def _stat_after_name(pid: int) -> list[str]:
    """Returns the fields of `/proc/PID/stat` from the third on; the name before them may contain blanks and
    parentheses.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def is_alive(pid: int, started: int | None) -> bool:
    """Whether this process still runs: not another one with the same pid, and not a zombie. A number without a start
    time names no process.
    """
    fields = _stat_after_name(pid)
    return bool(fields) and fields[0] != "Z" and int(fields[19]) == started


def write(data: Path, state: ClusterState) -> None:
    """Replaces `cluster.json`. Raises OSError."""
    temporary = data / TEMPORARY_NAME
    write_private(temporary, json.dumps(asdict(state), indent=2) + "\n")
    temporary.replace(data / FILE_NAME)


def nearest(data: Path) -> Path:
    """Returns the directory of the local cluster that commands mean: `data`, or the directory of the same name in the
    nearest parent directory that has one of this user, as git finds its repository.
    """
    path = data.resolve()
    for parent in path.parent.parents:
        if (path / FILE_NAME).exists():
            break
        found = parent / data.name / FILE_NAME
        with contextlib.suppress(OSError):
            if reason_for_distrust(found) is None:
                return found.parent
    return path


def read(data: Path) -> ClusterState:
    """Reads `cluster.json`.

    Raises:
        UserError: there is no cluster, or another user, or another program, may have written the file.
    """
    path = data / FILE_NAME
    try:
        reason = reason_for_distrust(path)
        if reason is not None:
            raise UserError(
                f"{path} is not obeyed",
                f"{reason}, so its processes and addresses may be that user's choice",
                f"name another directory with --data; or, if it is yours: chown $USER and chmod go-w {data} {path}",
            )
        return as_seen_now(_parse(path.read_text()))
    except FileNotFoundError:
        raise UserError(
            f"no local cluster in {data}",
            f"{path} does not exist",
            f"start one with: trimaran up --data {data}",
            exit_code=Exit.USAGE,
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(
            f"{path} is not what trimaran up wrote",
            f"{type(error).__name__}: {error}",
            "restore it from a backup; or delete the directory, and the cluster with it",
        ) from error


def _parse(text: str) -> ClusterState:
    raw = json.loads(text)
    nodes = tuple(_checked(NodeState(**node)) for node in raw.pop("nodes"))
    return ClusterState(nodes=nodes, **raw)


def _checked(node: NodeState) -> NodeState:
    """Checks the name, which is part of the paths that `purge` removes. Raises ValueError."""
    expected = node.role if node.id is None else f"{node.role}-{node.id:d}"
    if node.role not in ROLES or node.name != expected:
        raise ValueError(f"no node is called {node.name!r}")
    if node.pid is not None and node.pid <= 0:
        raise ValueError(f"{node.pid} is no process")
    return node


def as_seen_now(state: ClusterState) -> ClusterState:
    """Returns the state with the changes that a killed supervisor, or one with a full disk, could not write.

    Nodes whose process is gone are `dead`; without a running supervisor they are `stopped`.
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
    """Returns the plan of a cluster that was started before, so that `up` starts the same one again."""

    def port(address: str) -> int | None:
        return None if address == "-" else int(address.rpartition(":")[2])

    nodes = (
        NodePlan(n.name, n.role, n.id, port(n.address), data / n.name, port(n.metrics))
        for n in state.nodes
    )
    return ClusterPlan(data, state.cluster_id, tuple(nodes), state.settings, state.static_quorum)


def remove(data: Path) -> None:
    """Deletes `cluster.json`."""
    with contextlib.suppress(FileNotFoundError):
        (data / FILE_NAME).unlink()
