"""The supervisor of a local cluster: one thread, no trio, one `select` loop.

It owns the child processes and `cluster.json`, and obeys commands on its socket. It imports the servers once and forks
each node, so that six processes start in about a second and share the pages of the code. Once it has children, only a
stop ends it: a full disk, a broken terminal or a failed command is reported, and the loop continues.
"""

from __future__ import annotations

import contextlib
import gc
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from trimaran.errors.ports import ensure_port_is_free
from trimaran.errors.user_error import UserError
from trimaran.local import control, state_file
from trimaran.local.children import STOPPING, Child, Mains, main_of
from trimaran.local.growing import Growth, added, grow, prepare
from trimaran.local.layout import (
    STOP_ORDER,
    STOP_SECONDS_MAX,
    ClusterPlan,
    FreePorts,
    NodePlan,
)
from trimaran.local.links import Links, parted
from trimaran.local.readiness import POLL_SECONDS, READY_SECONDS_MAX, Acquaintance
from trimaran.local.start_failure import died_while_starting, no_zookeeper
from trimaran.local.undo import Undo
from trimaran.zkcompat.zookeeper.server_process import ZooKeeperUnavailableError, start_zookeeper

# the pause between attempts to write cluster.json while its disk is full or fails
STATE_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Grown:
    """The last growth, which can be undone: the plan before it, and the names of its nodes."""

    before: ClusterPlan
    names: list[str]
    undo: Undo


# Imported once, before nodes are forked, so that they share the memory and start in a fraction of a second.
SERVERS = (
    "trimaran.broker.process.server",
    "trimaran.quorum.controller.server",
    "trimaran.running.combined",
    "trimaran.running.node_process",
)


class Supervisor:
    """Owns the children of one data directory from start to stop.

    `private_fds` are descriptors of this process that nodes must close; `mains` is the argument of `main_of`.
    """

    def __init__(self, plan: ClusterPlan, private_fds: Iterable[int], mains: Mains) -> None:
        self._plan = plan
        self._mains = mains
        self._private_fds = tuple(private_fds)
        self._children = {node.name: Child(node) for node in plan.nodes}
        self._links = Links()
        self._selector = selectors.DefaultSelector()
        self._control_path = control.socket_path(plan.data)
        self._control = control.listen(self._control_path)
        self._wake_reader, self._wake_writer = os.pipe()
        self._acquaintance = Acquaintance(
            {node.address: node.id for node in plan.of_role("broker")}, READY_SECONDS_MAX
        )
        self._announced = False
        self._grown: _Grown | None = None
        self._stopping = False
        self._state_is_stale = False

    def run(self, on_ready: Callable[[], None]) -> bool:
        """Starts every node and serves until a stop is requested; `on_ready` is called once when all nodes serve and
        all brokers know each other.

        Returns False if it was stopped before that. All nodes have ended when this returns or raises.

        Raises:
            UserError: a node died while starting, the brokers did not get to know each other within
                `READY_SECONDS_MAX`, or `on_ready` raised it.
            OSError: `cluster.json` cannot be written; no node was started.
        """
        try:
            self._install_signals()
            # Written before the first node: readers can reach us from here on, and without the file nothing is
            # started.
            state_file.write(self._plan.data, self._state())
            self._import_servers()
            self._selector.register(self._control, selectors.EVENT_READ)
            self._selector.register(self._wake_reader, selectors.EVENT_READ)
            for name in self._children:
                self._start(name)
            self._write_state()
            return self._loop(on_ready)
        finally:
            self._stop_all()
            self._close()

    # --- the loop

    def _loop(self, on_ready: Callable[[], None]) -> bool:
        while True:
            for key, _ in self._selector.select(self._pause_seconds()):
                self._dispatch(key.fileobj)
            if self._state_is_stale:
                self._write_state()
            if self._stopping:
                return self._announced
            if not self._announced and self._all_serve() and self._acquaintance.made():
                self._announced = True
                on_ready()

    def _pause_seconds(self) -> float | None:
        """Returns how long the loop may sleep, or None if it may sleep until the next event."""
        if not self._announced and self._all_serve():
            return POLL_SECONDS
        return STATE_RETRY_SECONDS if self._state_is_stale else None

    def _dispatch(self, source: object) -> None:
        if source is self._control:
            self._serve_command()
        elif source == self._wake_reader:
            self._on_signals(os.read(self._wake_reader, 4096))
        else:
            self._on_ready_pipe(source)

    def _on_ready_pipe(self, fd: object) -> None:
        """Handles a ready pipe; it may have no owner, if its child ended in the same turn of the loop and was reaped
        first.
        """
        child = next((c for c in self._children.values() if c.ready_fd == fd), None)
        if child is not None:
            self._selector.unregister(child.ready_fd)  # type: ignore[arg-type]
            child.read_ready()
            self._write_state()

    def _install_signals(self) -> None:
        os.set_blocking(self._wake_reader, False)
        os.set_blocking(self._wake_writer, False)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGCHLD]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup makes a process ignore it
            numbers.append(signal.SIGHUP)
        for number in numbers:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # held back since the fork

    def _on_signals(self, numbers: bytes) -> None:
        if {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} & set(numbers):
            self._stopping = True
        self._reap()

    def _reap(self, *, wanted: Iterable[str] = ()) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if pid == 0:
                return
            for child in self._children.values():
                if child.pid == pid:
                    self._forget_ready_pipe(child)
                    child.reaped(wanted=child.plan.name in wanted)
                    self._write_state()

    # --- nodes

    @staticmethod
    def _import_servers() -> None:
        for name in SERVERS:
            import_module(name)
        gc.collect()
        gc.freeze()  # imported objects are never garbage; the collectors of children would copy their pages

    def _start(self, name: str) -> None:
        child = self._children[name]
        if child.plan.role == "zookeeper":
            self._start_zookeeper(child)
            return
        main = self._links.obeyed(child.plan, main_of(self._plan, child.plan, self._mains))
        child.fork(main, self._close_in_child)
        self._selector.register(child.ready_fd, selectors.EVENT_READ)  # type: ignore[arg-type]

    @staticmethod
    def _start_zookeeper(child: Child) -> None:
        ensure_port_is_free(child.plan.port or 0)
        try:
            process = start_zookeeper(
                child.plan.directory,
                child.plan.port or 0,
                own_process_group=True,
                stop_with_parent=True,
            )
        except ZooKeeperUnavailableError as error:
            raise no_zookeeper(error) from error
        child.adopt(process)

    def _close_in_child(self) -> None:
        self._control.close()
        self._selector.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        for child in self._children.values():
            if child.ready_fd is not None:
                os.close(child.ready_fd)
        for fd in self._private_fds:
            os.close(fd)

    def _forget_ready_pipe(self, child: Child) -> None:
        if child.ready_fd is not None:
            self._selector.unregister(child.ready_fd)
            os.close(child.ready_fd)
            child.ready_fd = None

    def _all_serve(self) -> bool:
        """Returns whether all nodes serve. Raises UserError if one ended instead."""
        for child in self._children.values():
            if child.state == "dead":
                raise died_while_starting(child.plan, "the cluster was stopped")
        return all(child.state != "starting" for child in self._children.values())

    def _stop_all(self) -> None:
        for role in STOP_ORDER:
            self._stop([name for name, child in self._children.items() if child.plan.role == role])

    def _stop(self, names: list[str]) -> None:
        """Stops nodes cleanly and waits; a node that does not end in time is killed."""
        running = [self._children[name] for name in names if self._children[name].pid is not None]
        for child in running:
            child.send(signal.SIGCONT)
            child.send(signal.SIGTERM)
        self._wait_gone(running, names, STOP_SECONDS_MAX)
        for child in running:
            child.send(signal.SIGKILL)
        self._wait_gone(running, names, 5.0)

    def _wait_gone(self, children: list[Child], names: list[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._reap(wanted=names)
        while any(c.pid is not None for c in children) and time.monotonic() < deadline:
            time.sleep(0.02)
            self._reap(wanted=names)

    # --- commands

    def _serve_command(self) -> None:
        try:
            connection, _ = self._control.accept()
        except OSError:  # the client disconnected before it was accepted, or no descriptor is left
            return
        with connection:
            # The other end is our own command line; a silent one must not block the loop.
            connection.settimeout(1.0)
            with contextlib.suppress(OSError):
                control.write_line(connection, self._answer(connection))

    def _answer(self, connection: socket.socket) -> dict[str, Any]:
        """Returns the response to a command; an error ends the command, not the cluster."""
        try:
            return self._obey(control.read_line(connection))
        except UserError as error:
            return {"ok": False, **error.as_json()}
        except Exception as error:  # noqa: BLE001 - see above
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    def _obey(self, request: dict[str, Any]) -> dict[str, Any]:
        command, name = request.get("command"), str(request.get("node", ""))
        if command == control.DRY_RUN:
            return self._judge(request["of"])
        if command == "stop":
            self._stopping = True
            return {"ok": True}
        if command == "partition":
            return {"ok": True, "links": self._links.cut(self._sides(request))}
        if command == "heal":
            self._links.heal()
            return {"ok": True}
        if command == "grow":
            return self._grow(Growth.of(request["growth"]))
        if command == "shrink":
            return self._shrink(request["nodes"])
        child = self._child(name)
        match command:
            case "kill" | "pause" | "resume":
                return self._signal(child, str(command))
            case "state":
                return {"ok": True, "state": child.state}
            case "restart":
                self._stop([child.plan.name])
                self._start(child.plan.name)
            case "start" if child.pid is None:
                self._start(child.plan.name)
            case _:
                return {
                    "ok": False,
                    "error": f"'{command}' is not possible for a node in state {child.state}",
                }
        self._write_state()
        return {"ok": True, "pid": child.pid}

    def _judge(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the response that a command would have, without its effect: it is refused as the command would
        be.
        """
        match request["command"]:
            case "stop" | "heal":
                return {"ok": True}
            case "partition":
                return {"ok": True, "links": len(parted(self._sides(request)))}
            case "kill" | "pause" | "resume":
                return {"ok": True, "pid": self._running(self._child(str(request["node"])))}
            case "restart":
                return {"ok": True, "pid": self._child(str(request["node"])).pid}
            case other:
                return {"ok": False, "error": f"there is no dry run of '{other}'"}

    def _sides(self, request: dict[str, Any]) -> list[list[NodePlan]]:
        return [[self._child(str(child)).plan for child in side] for side in request["sides"]]

    @staticmethod
    def _running(child: Child) -> int:
        """Returns the process of a running node. Raises UserError."""
        if child.pid is None:
            raise UserError(
                f"{child.plan.name} is not running",
                f"it is {child.state}",
                f"trimaran chaos restart {child.plan.name} starts it",
            )
        return child.pid

    def _child(self, name: str) -> Child:
        for child in self._children.values():
            if name in {child.plan.name, str(child.plan.id)}:
                return child
        raise UserError(
            f"there is no node '{name}'",
            "the cluster has none of that name",
            "trimaran ps shows all nodes",
        )

    def _signal(self, child: Child, command: str) -> dict[str, Any]:
        pid = self._running(child)
        match command:
            case "kill":
                child.send(signal.SIGKILL)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                self._reap()
            case "pause":
                child.send(signal.SIGSTOP)
                child.state = "paused"
            case _:
                child.send(signal.SIGCONT)
                child.state = "running" if child.state == "paused" else child.state
        self._write_state()
        return {"ok": True, "pid": pid}

    def _grow(self, growth: Growth) -> dict[str, Any]:
        """Formats and starts the missing nodes, and returns their names; the caller waits for them, or requests an
        undo.
        """
        if not self._announced:
            return {"ok": False, "error": "the cluster is still starting"}
        before, undo = self._plan, Undo(self._plan.data)
        try:
            # A port is released before its node is forked, since the node must not inherit the reservation.
            with FreePorts() as free_ports:
                grown = grow(before, growth, free_ports)
                prepare(before, grown)
                self._follow(grown)
            names = [node.name for node in added(before, self._plan)]
            self._grown = _Grown(before, names, undo)
            for name in names:
                self._start(name)
        except BaseException:
            self._take_back(before, undo)
            raise
        self._write_state()
        return {"ok": True, "nodes": names}

    def _shrink(self, names: list[str]) -> dict[str, Any]:
        grown = self._grown
        if grown is None or grown.names != names:
            return {"ok": False, "error": "the cluster has grown otherwise since"}
        self._grown = None
        self._take_back(grown.before, grown.undo)
        return {"ok": True}

    def _take_back(self, before: ClusterPlan, undo: Undo) -> None:
        new = added(before, self._plan)
        for role in STOP_ORDER:
            self._stop([node.name for node in new if node.role == role])
        self._follow(before)
        undo.run()
        self._write_state()

    def _follow(self, plan: ClusterPlan) -> None:
        old = self._children
        self._plan = plan
        self._children = {n.name: old[n.name] if n.name in old else Child(n) for n in plan.nodes}

    # --- cluster.json

    def _write_state(self) -> None:
        """Writes the file, or tries again later if the disk is full or fails: the supervisor must keep running for its
        nodes.
        """
        try:
            state_file.write(self._plan.data, self._state())
        except OSError as error:
            if not self._state_is_stale:
                _note(
                    f"cannot write {state_file.FILE_NAME}, so trimaran ps is out of date: {error}"
                )
            self._state_is_stale = True
            return
        if self._state_is_stale:
            self._state_is_stale = False
            _note(f"{state_file.FILE_NAME} is up to date again")

    def _state(self) -> state_file.ClusterState:
        plan = self._plan
        return state_file.ClusterState(
            cluster_id=plan.cluster_id,
            bootstrap=plan.addresses("broker"),
            controller_bootstrap=plan.addresses("controller"),
            zookeeper=plan.addresses("zookeeper") or None,
            control=str(self._control_path),
            supervisor_pid=os.getpid(),
            supervisor_started=state_file.start_time(os.getpid()),
            settings=plan.settings,
            nodes=tuple(child.snapshot() for child in self._children.values()),
            static_quorum=plan.static_quorum,
        )

    def _close(self) -> None:
        self._control.close()
        with contextlib.suppress(OSError):
            self._control_path.unlink()
        self._selector.close()


def supervise(
    plan: ClusterPlan, on_ready: Callable[[], None], private_fds: Iterable[int], mains: Mains
) -> bool:
    """Runs a supervisor in this process until a stop. Returns and raises as `Supervisor.run`."""
    return Supervisor(plan, private_fds, mains).run(on_ready)


def _note(text: str) -> None:
    """Writes to the supervisor's log or the terminal, either of which may be gone or full."""
    with contextlib.suppress(OSError, ValueError):
        print(f"supervisor: {text}", file=sys.stderr, flush=True)  # noqa: T201
