"""`up`, `down`, `purge`: the local cluster."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from trimaran.cli import background
from trimaran.cli.connect import DEFAULT_DATA, Data, DryRun, remember
from trimaran.cli.console import ensure_installed, run_local
from trimaran.cli.nodes import console_url, show_nodes
from trimaran.cli.output import Format, say
from trimaran.cli.progress import progress
from trimaran.errors.user_error import Exit, UserError
from trimaran.fault_control import listening, proxied
from trimaran.local import (
    children,
    control,
    layout,
    orphans,
    removing,
    start_failure,
    state_file,
    supervisor,
)
from trimaran.local import dry_start as local_dry_start
from trimaran.local import grow_running as local_grow_running
from trimaran.local import starting as local_starting
from trimaran.node.text.wording import counted
from trimaran.settings import profiles

POLL_SECONDS = 0.02
MAINS = {"console": run_local}
STOPPED = "stopped"
# The smallest quorum that still has a majority after the loss of one controller.
MAJORITY_SURVIVES_FROM = 3


def up(
    *,
    controllers: int | None = None,
    brokers: int | None = None,
    zk: bool = False,
    data: Data = DEFAULT_DATA,
    ports: Literal["auto", "fixed"] = "auto",
    detach: Annotated[bool, Parameter(name=["-d", "--detach"])] = False,
    override: list[str] | None = None,
    static_quorum: Annotated[bool, Parameter(negative=())] = False,
    metrics: Annotated[bool, Parameter(negative=())] = False,
    console: Annotated[bool, Parameter(name="--console", negative=())] = False,
    tmp: Annotated[bool, Parameter(name="--tmp", negative=())] = False,
    control: Annotated[str, Parameter(name="--control")] = "",
    dry_run: DryRun = False,
    output: Format = "table",
) -> int:
    """Starts a local cluster: a new one, or the existing one in --data. A running cluster gets the additions that the
    options name.

    If the start fails, it is undone: nodes are stopped, and new directories are removed; log files stay.

    Args:
        controllers: Number of controllers; 3 in a new cluster.
        brokers: Number of brokers; 3 in a new cluster. An existing cluster, running or not, gets more if it has fewer.
        zk: Also start a ZooKeeper and mirror the metadata into it; an existing cluster gets them, too.
        ports: auto (free ports) or fixed (9092, 9093 and 2181, plus 1000 for each further node).
        detach: Return when the cluster is ready; it keeps running in the background.
        override: KEY=VALUE for the properties file of every node. May be repeated.
        static_quorum: The voters of a new cluster are fixed by its configuration (kraft.version 0); by default they are
            kept in the log, and can change.
        metrics: Every controller and broker serves its metrics; trimaran metrics shows them.
        console: Also serve the web console.
        tmp: Use a temporary directory, which is deleted when the cluster stops.
        control: Also serve faults on demand over HTTP, at this port or HOST:PORT, and a proxy for clients; port 0 takes
            a free one. Requests need the token of TRIMARAN_CONTROL_TOKEN, or of the file that is named at the start.
            With -d, both serve until the cluster is stopped.
    """
    began = time.perf_counter()
    wanted = local_starting.WantedCluster(
        controllers, brokers, zk, ports == "fixed", override or (), static_quorum, metrics, console
    )
    if console or control:
        ensure_installed()
    if control:
        listening.checked_listening(control)
    start = partial(partial(_start_controlled, control) if control else _start, detach=detach)
    if tmp:
        with _temporary(data, detach=detach) as path:
            if dry_run:
                _say_started(path, wanted, "a temporary directory")
            else:
                start(path, wanted, began, output)
        return Exit.OK
    path = data.resolve()
    if dry_run:
        _say_started(path, wanted, str(path))
        return Exit.OK
    if control:
        local_starting.refuse_if_running(path)
    if (running := local_starting.grows_while_it_runs(path, wanted)) is not None:
        new = local_grow_running.grow_running(path, running, wanted.growth())
        _show_ready(path, began, output, f"{counted(len(new), 'new node')}: {', '.join(new)}; ")
        return Exit.OK
    start(path, wanted, began, output)
    return Exit.OK


def _start_controlled(
    listen: str,
    path: Path,
    wanted: local_starting.WantedCluster,
    began: float,
    output: str,
    *,
    detach: bool,
) -> None:
    """Returns when the control serves; if it is not detached, when it and the cluster have ended.

    The supervisor holds the write end of a pipe. A control in the background ends when that end is closed.
    """
    show_ready = partial(_show_ready, path, began, output)
    reader, writer = os.pipe()
    try:
        _start_detached(path, wanted, [writer])
    finally:
        os.close(writer)
    with os.fdopen(reader, "rb"):
        try:
            if detach:
                show_ready(control=_control_in_background(path, listen, reader))
            else:
                proxied.serve_running(path, listen, lambda ready: show_ready(control=ready))
        except BaseException:
            down(data=path)
            raise
    if not detach:
        down(data=path)


def _control_in_background(path: Path, listen: str, until_closed: int) -> listening.ReadyControl:
    """Returns when the control serves; it ends when the pipe `until_closed` is closed. Raises UserError."""

    def serve(report: Callable[[str], None], _: int) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, children.STOPPING)  # held back since the fork
        proxied.serve_running(
            path,
            listen,
            lambda ready: report(f"{background.READY} {ready.as_text()}"),
            until_closed,
        )

    log = path / layout.CONTROL_LOG
    said = background.start_in_background(
        log, serve, "starting the control", "stopping the control again"
    )
    if not said:
        raise UserError(
            "the control did not start",
            f"it exited during startup: {start_failure.last_words(log)}",
            f"see {log}",
        )
    return listening.ReadyControl.of_text(said.removeprefix(background.READY))


def _say_started(data: Path, wanted: local_starting.WantedCluster, where: str) -> None:
    found = local_dry_start.dry_start(data, wanted)
    for node in found.started:
        verb = "format and start" if node in found.new and node.id is not None else "start"
        is_known = wanted.fixed_ports or node not in found.new
        at = "" if node.port is None else f" at {node.address if is_known else 'a free port'}"
        say(f"would {verb} {node.name}{at}")
    say(
        f"the cluster in {where} keeps running" if found.is_running else f"its directory is {where}"
    )


@contextlib.contextmanager
def _temporary(data: Path, *, detach: bool) -> Iterator[Path]:
    """Yields a temporary directory for a cluster; at the end removes it, and the profile `local` of the cluster."""
    if detach or data != DEFAULT_DATA:
        raise UserError(
            "--tmp cannot be combined with -d or --data",
            "the directory is deleted when this command ends",
            "leave --tmp out; trimaran purge deletes a cluster and its data",
            exit_code=Exit.USAGE,
        )
    # A node that is slow to end may still write to the directory.
    with tempfile.TemporaryDirectory(prefix="trimaran-", ignore_cleanup_errors=True) as made:
        path = Path(made)
        try:
            yield path
        finally:
            if (path / state_file.FILE_NAME).exists():
                profiles.remove(profiles.LOCAL, state_file.read(path).bootstrap)


def _start(
    path: Path, wanted: local_starting.WantedCluster, began: float, output: str, *, detach: bool
) -> None:
    """Returns when the cluster is ready; if it is not detached, when it has ended."""
    if detach:
        _start_detached(path, wanted, ())
        _show_ready(path, began, output)
        return
    with _beginning(path, wanted) as (beginning, private_fds):
        _supervise_here(beginning, private_fds, partial(_tell_ready, path, began, output))


def _start_detached(path: Path, wanted: local_starting.WantedCluster, fds: Iterable[int]) -> None:
    """Returns when the cluster is ready. Its supervisor keeps `fds` open; its nodes do not."""
    with _beginning(path, wanted) as (beginning, private_fds):
        _supervise_in_background(beginning.plan, [*private_fds, *fds])
        beginning.ready()


@contextlib.contextmanager
def _beginning(
    path: Path, wanted: local_starting.WantedCluster
) -> Iterator[tuple[local_starting.Beginning, list[int]]]:
    """Yields the cluster that is being started, and the descriptors that its nodes must close."""
    local_starting.refuse_if_running(path)
    with local_starting.lock_directory(path) as lock, layout.FreePorts() as free_ports:
        local_starting.refuse_if_running(path)
        with local_starting.starting(path, wanted, free_ports) as beginning:
            yield beginning, [lock.fd, *free_ports.descriptors()]


def _supervise_here(
    beginning: local_starting.Beginning, private_fds: list[int], tell_ready: Callable[[], None]
) -> None:
    def on_ready() -> None:
        beginning.ready()
        tell_ready()

    if not supervisor.supervise(beginning.plan, on_ready, private_fds, MAINS):
        raise start_failure.StoppedWhileStarting


def _supervise_in_background(plan: layout.ClusterPlan, private_fds: list[int]) -> None:
    """Forks the supervisor and returns when all nodes are ready. Raises UserError if the start fails; all nodes have
    ended by then.

    Interrupting the wait stops the cluster.
    """

    def supervise(report: Callable[[str], None], report_fd: int) -> None:
        fds = [report_fd, *private_fds]
        if not supervisor.supervise(plan, partial(report, background.READY), fds, MAINS):
            report(STOPPED)

    log = plan.data / layout.SUPERVISOR_LOG
    said = background.start_in_background(
        log, supervise, "starting the nodes", "stopping the cluster again"
    )
    if said == STOPPED:
        raise start_failure.StoppedWhileStarting
    if not said:
        raise UserError(
            "the cluster did not start",
            f"its supervisor exited during startup: {start_failure.last_words(log)}",
            f"see {log}; trimaran doctor checks the machine",
        )


def _show_ready(
    data: Path,
    began: float,
    output: str,
    new: str = "",
    control: listening.ReadyControl | None = None,
) -> None:
    """Shows the nodes, and the address for clients: that of the proxy, if there is a control."""
    state = state_file.read(data)
    remember(state)
    with _reader_may_go():
        show_nodes(state, output, control)
        sys.stdout.flush()
    if output in ("table", "wide"):
        bootstrap = state.bootstrap if control is None else control.bootstrap
        say(f"{new}ready in {time.perf_counter() - began:.1f} s   bootstrap {bootstrap}")
        if (url := console_url(state)) is not None:
            say(f"console {url}")
    if control is not None:
        say(proxied.ready_text("the brokers", control))
    if output in ("table", "wide"):
        say(f"next:  {'  |  '.join(_next_commands(state, data, control))}")


def _next_commands(
    state: state_file.ClusterState, data: Path, control: listening.ReadyControl | None = None
) -> list[str]:
    """Returns commands that work with this cluster: without brokers there are no topics, and a quorum of fewer than
    three controllers does not survive the loss of its leader. Faults on demand need the address of the proxy.
    """
    brokers = sum(node.role == "broker" for node in state.nodes)
    controllers = sum(node.role == "controller" for node in state.nodes)
    if control is not None:
        return [f"export TRIMARAN_BOOTSTRAP={control.bootstrap}"]
    if state_file.nearest(DEFAULT_DATA) != data:
        if brokers:
            return [f"export TRIMARAN_BOOTSTRAP={state.bootstrap}"]
        return [f"trimaran quorum status --data {shlex.quote(str(data))}"]
    commands = [f"trimaran topics create t -p 6 -r {min(3, brokers)}"] if brokers else []
    commands.append("trimaran quorum status")
    if controllers >= MAJORITY_SURVIVES_FROM:
        commands.append("trimaran chaos kill leader")
    return commands


@contextlib.contextmanager
def _reader_may_go() -> Iterator[None]:
    """Handles a closed stdout, as in `up | head -1`: the cluster keeps running."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _tell_ready(data: Path, began: float, output: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # stderr may have no reader
        _show_ready(data, began, output)


def down(*, data: Data = DEFAULT_DATA, dry_run: DryRun = False) -> int:
    """Stops the local cluster; its data stays."""
    path = state_file.nearest(data)
    if not _has_cluster(path):
        say(f"no local cluster in {data}: nothing to stop")
        return Exit.OK
    state = state_file.read(path)
    if dry_run:
        _say_stopped(state, data)
        return Exit.OK
    if state.is_up():
        control.ask(state.control, "stop")
        with progress("stopping the nodes"):
            while state.is_up():
                time.sleep(POLL_SECONDS)
    elif orphans.orphans_of(state):
        orphans.stop_orphans(path, state)
    else:
        _say_not_running(data)
        return Exit.OK
    say("stopped")
    return Exit.OK


def _has_cluster(path: Path) -> bool:
    return (path / state_file.FILE_NAME).exists()


def _say_not_running(data: Path) -> None:
    say(f"the cluster in {data} is not running")


def _say_stopped(state: state_file.ClusterState, data: Path) -> None:
    if state.is_up():
        control.ask(state.control, "stop", dry_run=True)
    if running := [node for node in state.nodes if node.pid is not None]:
        say(f"would stop {', '.join(f'{node.name} (pid {node.pid})' for node in running)}")
    elif not state.is_up():
        _say_not_running(data)


def _agreed(question: str) -> bool:
    try:
        return input(question).strip().lower() == "y"
    except EOFError:
        raise UserError(
            "cannot ask for confirmation",
            "stdin is closed",
            "use --yes",
            exit_code=Exit.USAGE,
        ) from None


def purge(
    *,
    data: Data = DEFAULT_DATA,
    yes: Annotated[bool, Parameter(name=["-y", "--yes"])] = False,
    dry_run: DryRun = False,
) -> int:
    """Stops the local cluster and deletes its data. Other files in the directory, such as reports, stay.

    Args:
        yes: Do not ask for confirmation.
    """
    path = data.resolve()
    if not _has_cluster(path):
        say(f"no local cluster in {path}: nothing to delete")
        return Exit.OK
    state = state_file.read(path)
    if dry_run:
        _say_deleted(path, removing.kept_in(path, state), "would delete", "would keep")
        return Exit.OK
    if not yes and not _agreed(f"delete the cluster in {path} and all its records? [y/N] "):
        return Exit.NO
    if state.is_up() or orphans.orphans_of(state):
        down(data=path)
    with local_starting.lock_directory(path):
        local_starting.refuse_if_running(path)
        kept = removing.remove_cluster(path, state)
    profiles.remove(profiles.LOCAL, state.bootstrap)
    _say_deleted(path, kept, "deleted", "kept")
    return Exit.OK


def _say_deleted(path: Path, kept: list[str], deleted: str, left: str) -> None:
    if kept:
        say(f"{deleted} the cluster in {path}; {left} what is not its own: {', '.join(kept)}")
    else:
        say(f"{deleted} {path}")
