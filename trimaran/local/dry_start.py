"""Finds out what `up` would start, without starting it: refuses as `up` would, and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trimaran.errors.ports import ensure_port_is_free
from trimaran.local import lock
from trimaran.local.formatting import ensure_can_be_formatted
from trimaran.local.growing import added
from trimaran.local.layout import FreePorts, NodePlan
from trimaran.local.lock import ClusterLock
from trimaran.local.start_failure import no_zookeeper
from trimaran.local.starting import (
    WantedCluster,
    decided,
    grows_while_it_runs,
    refusals_of,
    refuse_if_running,
)
from trimaran.quorum.formatting.permission import ensure_can_be_made
from trimaran.zkcompat.zookeeper.server_process import missing_part


@dataclass(frozen=True, slots=True)
class DryStart:
    """The nodes that would be started, the new ones among them that would be formatted first, and whether other nodes
    run.
    """

    started: tuple[NodePlan, ...]
    new: tuple[NodePlan, ...]
    is_running: bool


def dry_start(data: Path, wanted: WantedCluster) -> DryStart:
    """Returns what `starting`, or a growth while the cluster runs, would do in this directory.

    Raises:
        UserError: the plan is impossible; a port is taken; there is no ZooKeeper to start.
        OSError: a directory cannot be written.
    """
    is_running = grows_while_it_runs(data, wanted) is not None
    if not is_running:
        refuse_if_running(data)
        _ensure_free(data)
    with FreePorts() as free_ports:
        before, plan = decided(data, wanted, free_ports)
    new = tuple(plan.nodes if before is None else added(before, plan))
    ensure_can_be_formatted(plan, new)
    started = new if is_running else plan.nodes
    for node in started:
        _ensure_can_run(node)
    return DryStart(started, new, is_running)


def _ensure_free(data: Path) -> None:
    with refusals_of(data):
        ensure_can_be_made(data)
        if (data / lock.FILE_NAME).exists():
            with ClusterLock(data):
                pass


def _ensure_can_run(node: NodePlan) -> None:
    for port in (node.port, node.metrics_port):
        if port is not None:
            ensure_port_is_free(port)
    if node.role == "zookeeper" and (error := missing_part()) is not None:
        raise no_zookeeper(error)
