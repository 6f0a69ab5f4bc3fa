"""The nodes of a local cluster as child processes: fork, readiness, signals, exit.

A controller, a broker or the mirror is forked from the supervisor, which has imported all modules once; ZooKeeper is a
Java process. A forked child reports that it serves by one byte on a pipe, which closes if it ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from trimaran.errors.user_error import UserError
from trimaran.local.layout import ClusterPlan, NodePlan
from trimaran.local.state_file import NodeState, start_time
from trimaran.node.runtime.parent_death import end_with_parent
from trimaran.node.runtime.ports import HOST
from trimaran.running import node_process
from trimaran.running.log_lines import set_up_mirror
from trimaran.settings.node_config import parse_config
from trimaran.settings.properties import read_file
from trimaran.wire.identity import Address
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.metrics import mirror_monitor
    from trimaran.zkcompat.commands import mirror_process
    from trimaran.zkcompat.mirroring.mirror import Mirror
else:
    mirror_monitor = imported_later("trimaran.metrics.mirror_monitor")
    mirror_process = imported_later("trimaran.zkcompat.commands.mirror_process")


# The signals that stop a cluster.
STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Holds back signals that stop a cluster, from before a fork until both processes have their own handlers: the
    forked process would obey those of its parent, and the parent would end before it knows what to stop.

    Invariant: the process has one thread, since the kernel would give the signal to another one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Process(Protocol):
    """A process that was started elsewhere; kept, since dropping the object would warn that it still runs."""

    @property
    def pid(self) -> int: ...


@dataclass(slots=True)
class Child:
    """A node and its process. `state` is stopped, starting, running, paused or dead (ended without a request)."""

    plan: NodePlan
    pid: int | None = None
    started: int | None = None
    state: str = "stopped"
    ready_fd: int | None = None
    process: Process | None = None

    def snapshot(self) -> NodeState:
        plan = self.plan
        return NodeState(
            plan.id,
            plan.name,
            plan.role,
            plan.address,
            self.pid,
            self.started,
            str(plan.directory),
            self.state,
            plan.metrics_address,
        )

    def fork(
        self, main: Callable[[Callable[[], None]], None], close_in_child: Callable[[], None]
    ) -> None:
        """Starts the node; `main(on_ready)` runs in the child, after `close_in_child` has closed the descriptors of the
        parent.
        """
        _flush_output()
        reader, writer = os.pipe()
        supervisor_pid = os.getpid()
        with signals_held():
            try:
                pid = os.fork()
            except OSError:
                os.close(reader)
                os.close(writer)
                raise
            if pid == 0:
                _run_child(
                    self.plan.log_file,
                    main,
                    writer,
                    [partial(os.close, reader), close_in_child],
                    supervisor_pid,
                )
        os.close(writer)
        os.set_blocking(reader, False)
        self._began(pid)
        self.ready_fd = reader

    def adopt(self, process: Process) -> None:
        """Takes over a process that is ready already (ZooKeeper)."""
        self.process = process
        self._began(process.pid)
        self.state = "running"

    def _began(self, pid: int) -> None:
        self.pid, self.started, self.state = pid, start_time(pid), "starting"

    def read_ready(self) -> None:
        """Called when the ready pipe is readable; an end without a byte is handled in `reaped`."""
        if self.ready_fd is None:
            return
        if os.read(self.ready_fd, 1) and self.state == "starting":
            self.state = "running"
        os.close(self.ready_fd)
        self.ready_fd = None

    def send(self, signal_number: int) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal_number)

    def reaped(self, *, wanted: bool) -> None:
        """Handles the end of the process; `wanted` distinguishes a requested stop from a crash."""
        self.pid = self.started = None
        self.state = "stopped" if wanted else "dead"


def _run_child(
    log_file: Path,
    main: Callable[[Callable[[], None]], None],
    ready_fd: int,
    close_in_child: Iterable[Callable[[], None]],
    supervisor_pid: int,
) -> NoReturn:
    """Runs in the forked child, on the stack of the supervisor: no exception may leave it, or it would stop its
    siblings.
    """
    exit_code = 1
    try:
        for close in close_in_child:
            close()
        _leave_supervisor(supervisor_pid)
        redirect_output(log_file)

        def on_ready() -> None:
            os.write(ready_fd, b"r")
            os.close(ready_fd)

        exit_code = _run_main(main, on_ready)
        _flush_output()
    except BaseException:  # noqa: BLE001 - the child ends here whatever happens; its log file says why
        with contextlib.suppress(OSError):
            traceback.print_exc()
    finally:
        os._exit(exit_code)


def _leave_supervisor(supervisor_pid: int) -> None:
    """Puts the child into its own process group, since Ctrl-C is for the supervisor, which stops the nodes in order;
    restores default signals; makes the child end with its parent.
    """
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    end_with_parent(supervisor_pid)
    gc.enable()


def _run_main(main: Callable[[Callable[[], None]], None], on_ready: Callable[[], None]) -> int:
    try:
        main(on_ready)
    except UserError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    except SystemExit as ended:  # the function has reported its error
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _flush_output() -> None:
    """Flushes the output; a full disk or a closed terminal loses it, which is no reason to stop."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def redirect_output(log_file: Path) -> None:
    """Sends stdout and stderr of this process to a file, for the rest of its life."""
    out = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(out)
    os.close(null)


# Functions that run the roles, from the layers above; they take the plan, the node, and a callback that is called when
# the node serves.
Mains = Mapping[str, Callable[[ClusterPlan, NodePlan, Callable[[], None]], None]]


def main_of(
    plan: ClusterPlan, node: NodePlan, mains: Mains
) -> Callable[[Callable[[], None]], None]:
    """Returns the function that the forked child of this node runs."""
    if node.role in mains:
        return lambda on_ready: mains[node.role](plan, node, on_ready)
    if node.role == "mirror":
        return lambda on_ready: _run_mirror(plan, node, on_ready)
    return lambda on_ready: _run_server(node, on_ready)


def _run_server(node: NodePlan, on_ready: Callable[[], None]) -> None:
    config = parse_config(read_file(node.properties_file), to_serve=True)

    def ready() -> None:
        node_process.say_started(config)
        on_ready()

    node_process.serve(config, ready)


def _run_mirror(plan: ClusterPlan, node: NodePlan, on_ready: Callable[[], None]) -> None:
    @asynccontextmanager
    async def monitored() -> AsyncIterator[Callable[[Mirror], None]]:
        if node.metrics_port is None:
            yield lambda _: on_ready()
            return
        async with mirror_monitor.mirror_with_metrics(Address(HOST, node.metrics_port)) as monitor:

            def found(mirror: Mirror) -> None:
                monitor(mirror)
                on_ready()

            yield found

    set_up_mirror()
    mirror_process.run_mirror(
        plan.addresses("controller"),
        plan.addresses("zookeeper"),
        node.directory,
        plan.settings,
        monitored,
    )
