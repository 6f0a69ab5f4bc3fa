"""What `up` starts: a new cluster, or the one that the directory holds already, with further settings."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from quorum.formatting.storage import random_uuid
from trimaran.errors import Exit, UserError
from trimaran.local import state_file
from trimaran.local.formatting import format_cluster, write_all_properties
from trimaran.local.layout import (
    NODES_MAX,
    ClusterPlan,
    FreePorts,
    plan_cluster,
    with_console,
    with_metrics,
)
from trimaran.local.lock import ClusterLock
from trimaran.local.orphans import orphans_of
from trimaran.properties import from_overrides

NODES_OF_A_NEW_CLUSTER = 3
ROLES = (
    "controller",
    "broker",
)  # of nodes that are formatted; names of their files begin with them


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user asked for; None where nothing was said."""

    controllers: int | None
    brokers: int | None
    zookeeper: bool
    fixed_ports: bool
    overrides: Sequence[str]
    static_quorum: bool = False
    metrics: bool = False
    console: bool = False

    def settings(self) -> dict[str, str]:
        return {key: setting.value for key, setting in from_overrides(self.overrides).items()}


def refuse_if_running(data: Path) -> None:
    """A UserError when a supervisor or nodes of one still run here: there is never a second set."""
    if not (data / state_file.FILE_NAME).exists():
        return
    state = state_file.read(data)
    if state.is_up():
        raise UserError(
            f"the cluster in {data} is already up",
            f"its supervisor runs as process {state.supervisor_pid}",
            "trimaran ps shows it, trimaran down stops it; or choose another --data",
        )
    if left := orphans_of(state):
        names = ", ".join(f"{node.name} (pid {node.pid})" for node in left)
        raise UserError(
            f"nodes of the cluster in {data} still run",
            f"their supervisor is not running: {names}",
            f"stop them first: trimaran down --data {data}",
        )


def lock_directory(data: Path) -> ClusterLock:
    """Makes the directory if need be and locks it."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        return ClusterLock(data)
    except OSError as error:
        raise UserError(
            f"cannot use the directory {data}",
            error.strerror or str(error),
            "name another with --data",
            exit_code=Exit.USAGE,
        ) from error


@contextmanager
def starting(data: Path, wanted: Wanted, free_ports: FreePorts) -> Iterator[ClusterPlan]:
    """`plan_of`, for the block in which the cluster begins: one that fails before `cluster.json` is there leaves no
    nodes behind.

    Without that file nobody could start, stop or purge what is half made.
    """
    before = set(data.iterdir())
    try:
        yield plan_of(data, wanted, free_ports)
    except BaseException:
        if not (data / state_file.FILE_NAME).exists():
            made = {path for role in ROLES for path in data.glob(f"{role}-*")}
            for path in made - before:
                _remove(path)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def plan_of(data: Path, wanted: Wanted, free_ports: FreePorts) -> ClusterPlan:
    """The cluster to start, formatted, its properties files written; a new one has free ports, unless fixed ones are
    wanted.
    """
    if (data / state_file.FILE_NAME).exists():
        return _existing(data, wanted, None if wanted.fixed_ports else free_ports)
    return _new(data, wanted, None if wanted.fixed_ports else free_ports)


def _existing(data: Path, wanted: Wanted, ports: FreePorts | None) -> ClusterPlan:
    plan = state_file.plan_of(data, state_file.read(data))
    _ensure_same(plan, "controllers", "controller", wanted.controllers)
    _ensure_same(plan, "brokers", "broker", wanted.brokers)
    _ensure_same(plan, "ZooKeepers", "zookeeper", 1 if wanted.zookeeper else None)
    if wanted.static_quorum and not plan.static_quorum:
        raise UserError(
            f"the quorum in {plan.data} is dynamic",
            "how the first voters are known is decided at the first start, and a dynamic quorum stays one",
            f"leave --static-quorum out, choose another --data, or trimaran purge --data {plan.data}",
            exit_code=Exit.USAGE,
        )
    settings = wanted.settings()
    if settings or wanted.metrics:
        plan = replace(plan, settings=plan.settings | settings)
        plan = with_metrics(plan, ports) if wanted.metrics else plan
        write_all_properties(plan)
    return with_console(plan, ports) if wanted.console else plan


def _ensure_same(plan: ClusterPlan, nodes: str, role: str, wanted: int | None) -> None:
    found = len(plan.of_role(role))
    if wanted is not None and wanted != found:
        raise UserError(
            f"the cluster in {plan.data} has {found} {nodes}, not {wanted}",
            "what a local cluster consists of is decided at its first start",
            f"leave the option out, choose another --data, or trimaran purge --data {plan.data}",
            exit_code=Exit.USAGE,
        )


def _new(data: Path, wanted: Wanted, ports: FreePorts | None) -> ClusterPlan:
    controllers = NODES_OF_A_NEW_CLUSTER if wanted.controllers is None else wanted.controllers
    brokers = NODES_OF_A_NEW_CLUSTER if wanted.brokers is None else wanted.brokers
    if not (1 <= controllers <= NODES_MAX and 0 <= brokers <= NODES_MAX * 10):
        raise UserError(
            f"cannot start {controllers} controllers and {brokers} brokers",
            f"a local cluster has 1 to {NODES_MAX} controllers, and brokers up to {NODES_MAX * 10}",
            "trimaran up --controllers 3 --brokers 3",
            exit_code=Exit.USAGE,
        )
    plan = plan_cluster(
        data,
        random_uuid(),
        controllers=controllers,
        brokers=brokers,
        zookeeper=wanted.zookeeper,
        ports=ports,
        settings=wanted.settings(),
        static_quorum=wanted.static_quorum,
    )
    if wanted.metrics:
        plan = with_metrics(plan, ports)
    format_cluster(plan)
    return with_console(plan, ports) if wanted.console else plan
