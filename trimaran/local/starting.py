"""Starts a new cluster, or the existing one in the directory, with further settings, for `up`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file
from trimaran.local.formatting import format_cluster, write_all_properties
from trimaran.local.growing import (
    BROKERS_MAX,
    Growth,
    ensure_brokers_grow,
    grow,
    prepare,
)
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
from trimaran.local.private_files import reason_for_distrust_of_directory
from trimaran.local.start_failure import StoppedWhileStarting
from trimaran.local.state_file import ClusterState
from trimaran.local.undo import Undo
from trimaran.quorum.formatting.storage import random_uuid
from trimaran.settings.properties import from_overrides

NODES_OF_A_NEW_CLUSTER = 3


@dataclass(frozen=True, slots=True)
class WantedCluster:
    """The options of the user; None for those not given."""

    controllers: int | None
    brokers: int | None
    zookeeper: bool
    fixed_ports: bool
    overrides: Sequence[str]
    static_quorum: bool = False
    metrics: bool = False
    console: bool = False

    def growth(self) -> Growth:
        """Returns the additions that are also possible later."""
        return Growth(self.brokers, self.zookeeper, self.console, self.fixed_ports)

    def settings(self) -> dict[str, str]:
        return {key: setting.value for key, setting in from_overrides(self.overrides).items()}

    def options_of_stopped_nodes(self) -> list[str]:
        """Returns the given options that nodes read only when they start."""
        given = {
            "--override": self.overrides,
            "--metrics": self.metrics,
            "--static-quorum": self.static_quorum,
        }
        return [option for option, value in given.items() if value]


def refuse_if_running(data: Path) -> None:
    """Raises UserError if a supervisor or its nodes still run here: there must never be a second set."""
    if not (data / state_file.FILE_NAME).exists():
        return
    state = state_file.read(data)
    if state.is_up():
        raise UserError(
            f"the cluster in {data} is already up",
            f"its supervisor runs as process {state.supervisor_pid}",
            "trimaran ps shows it, trimaran brokers add adds brokers, trimaran down stops it; "
            "or choose another --data",
        )
    if left := orphans_of(state):
        names = ", ".join(f"{node.name} (pid {node.pid})" for node in left)
        raise UserError(
            f"nodes of the cluster in {data} are still running",
            f"their supervisor is gone: {names}",
            f"stop them first: trimaran down --data {data}",
        )


def grows_while_it_runs(data: Path, wanted: WantedCluster) -> ClusterState | None:
    """Returns the state of a running cluster if requested nodes are missing in it.

    Raises:
        UserError: another requested change requires a stop of its nodes.
    """
    if not (data / state_file.FILE_NAME).exists():
        return None
    state = state_file.read(data)
    roles = Counter(node.role for node in state.nodes)
    if not state.is_up() or not (
        (wanted.brokers is not None and wanted.brokers != roles["broker"])
        or (wanted.zookeeper and not roles["zookeeper"])
        or (wanted.console and not roles["console"])
    ):
        return None
    if refused := wanted.options_of_stopped_nodes():
        raise UserError(
            f"the cluster in {data} is running",
            "while it runs, only brokers, ZooKeeper and a console can be added; nodes read settings when they start",
            f"leave {' and '.join(refused)} out, or trimaran down --data {data} first",
            exit_code=Exit.USAGE,
        )
    plan = state_file.plan_of(data, state)
    _ensure_same_controllers(plan, wanted.controllers)
    ensure_brokers_grow(plan, wanted.brokers)
    return state


def lock_directory(data: Path) -> ClusterLock:
    """Creates the directory if necessary and locks it.

    Raises:
        UserError: the directory cannot be used, or other users can write it: every command would refuse its files.
    """
    with refusals_of(data):
        data.mkdir(mode=0o755, parents=True, exist_ok=True)
        if (reason := reason_for_distrust_of_directory(data)) is not None:
            raise UserError(
                f"{data} is no place for a cluster",
                f"{reason}, so its processes and addresses could be that user's choice",
                f"name another directory with --data; or, if it is yours: chmod go-w {data}",
                exit_code=Exit.USAGE,
            )
        return ClusterLock(data)


@contextmanager
def refusals_of(data: Path) -> Iterator[None]:
    """Turns an OSError about the directory into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot use the directory {data}",
            error.strerror or str(error),
            "name another with --data",
            exit_code=Exit.USAGE,
        ) from error


class Beginning:
    """A cluster that is being started. Once it is `ready`, the start is no longer undone."""

    def __init__(self, plan: ClusterPlan) -> None:
        self.plan = plan
        self.is_ready = False

    def ready(self) -> None:
        self.is_ready = True


@contextmanager
def starting(data: Path, wanted: WantedCluster, free_ports: FreePorts) -> Iterator[Beginning]:
    """Yields the plan of `plan_of` for the block in which the cluster starts.

    If the start fails before the cluster is ready, the directory is restored: new directories are deleted, and settings
    with which nodes did not start are dropped. A stop by `down` keeps them. The block ends when no node runs.
    """
    undo = Undo(data)
    beginning: Beginning | None = None
    try:
        beginning = Beginning(plan_of(data, wanted, free_ports))
        yield beginning
    except StoppedWhileStarting:
        raise
    except BaseException:
        if beginning is None or not beginning.is_ready:
            undo.run()
        raise


def plan_of(data: Path, wanted: WantedCluster, free_ports: FreePorts) -> ClusterPlan:
    """Returns the cluster to start, after formatting it and writing its properties files; a new one has free ports,
    unless fixed ones are wanted.
    """
    before, plan = decided(data, wanted, free_ports)
    if before is None:
        format_cluster(plan)
        return plan
    if wanted.overrides or wanted.metrics:
        write_all_properties(plan)
    prepare(before, plan)
    return plan


def decided(
    data: Path, wanted: WantedCluster, free_ports: FreePorts
) -> tuple[ClusterPlan | None, ClusterPlan]:
    """Returns the existing cluster in the directory, if any, and the one to start. Nothing is written.

    Raises:
        UserError: the wanted cluster is impossible.
    """
    if "," in str(data):
        raise UserError(
            f"cannot use the directory {data}",
            "its path has a comma, which separates directories in log.dirs",
            "name another with --data",
            exit_code=Exit.USAGE,
        )
    if (data / state_file.FILE_NAME).exists():
        before = state_file.plan_of(data, state_file.read(data))
        return before, _changed(before, wanted, free_ports)
    return None, _new(data, wanted, None if wanted.fixed_ports else free_ports)


def _changed(plan: ClusterPlan, wanted: WantedCluster, ports: FreePorts) -> ClusterPlan:
    _ensure_same_controllers(plan, wanted.controllers)
    if wanted.static_quorum and not plan.static_quorum:
        raise UserError(
            f"the quorum in {plan.data} is dynamic",
            "the kind of quorum is decided at the first start and cannot change",
            f"leave --static-quorum out, choose another --data, or trimaran purge --data {plan.data}",
            exit_code=Exit.USAGE,
        )
    settings = wanted.settings()
    if settings or wanted.metrics:
        plan = replace(plan, settings=plan.settings | settings)
        plan = with_metrics(plan, None if wanted.fixed_ports else ports) if wanted.metrics else plan
    return grow(plan, wanted.growth(), ports)


def _ensure_same_controllers(plan: ClusterPlan, wanted: int | None) -> None:
    found = len(plan.of_role("controller"))
    if wanted is not None and wanted != found:
        raise UserError(
            f"the cluster in {plan.data} has {found} controllers, not {wanted}",
            "the controllers are decided at its first start",
            f"leave --controllers out, choose another --data, or trimaran purge --data {plan.data}",
            exit_code=Exit.USAGE,
        )


def _new(data: Path, wanted: WantedCluster, ports: FreePorts | None) -> ClusterPlan:
    controllers = NODES_OF_A_NEW_CLUSTER if wanted.controllers is None else wanted.controllers
    brokers = NODES_OF_A_NEW_CLUSTER if wanted.brokers is None else wanted.brokers
    if not (1 <= controllers <= NODES_MAX and 0 <= brokers <= BROKERS_MAX):
        raise UserError(
            f"cannot start {controllers} controllers and {brokers} brokers",
            f"a local cluster has 1 to {NODES_MAX} controllers, and up to {BROKERS_MAX} brokers",
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
    return with_console(plan, ports) if wanted.console else plan
