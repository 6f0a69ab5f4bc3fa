"""Runs one node in this process until a signal, for the supervisor's children and for `trimaran broker start`.

SIGTERM and SIGINT cancel the node's task; a broker then hands over its leaderships (controlled shutdown) before it
stops.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import trio

from trimaran.errors.node import explain
from trimaran.errors.user_error import UserError
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.slow_steps import logging_slow_steps
from trimaran.node.security.listener_security import certificate_doubts
from trimaran.running import events
from trimaran.running.log_lines import set_up, writes_json
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.metrics import node_monitor
else:
    node_monitor = imported_later("trimaran.metrics.node_monitor")

log = logging.getLogger(__name__)

# The longest wait for the interpreter's lock of a thread that returns from the disk while the loop is busy, about ten
# times per produce request. With Python's 5 ms it would exceed all other waits of a request. A switch costs about 10
# µs, and happens only while a thread waits.
SWITCH_SECONDS = 0.00005

Role = Callable[..., Awaitable[None]]


# The function for each value of `process.roles`. Only that function is imported: a controller does not load the broker.
ROLES = {
    frozenset({"broker"}): "trimaran.running.broker_role:run_broker_role",
    frozenset({"controller"}): "trimaran.running.controller_role:run_controller_role",
    frozenset({"broker", "controller"}): "trimaran.running.combined:run_combined",
}


def roles_of(
    config: ServerConfig, on_mirror: Callable[[Any], object] = lambda _: None
) -> list[Role]:
    """Returns the functions that run the roles of `process.roles`. `on_mirror` gets the mirror of a controller that has
    one.
    """
    name = ROLES.get(frozenset(config["process.roles"]))
    if name is None:
        return []
    role: Role = resolve_name(name)
    return [partial(role, on_mirror=on_mirror) if config.is_controller else role]


async def run_roles(
    roles: list[Role],
    config: ServerConfig,
    on_ready: Callable[[], object],
    on_running: Callable[[Any], object] = lambda _: None,
) -> None:
    """Runs the roles until a signal; `on_running` is called with the running role when each serves, and `on_ready` once
    all of them do.

    Raises:
        UserError: they did not serve within `server.max.startup.time.ms`.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_signal, nursery.cancel_scope)
        milliseconds = config["server.max.startup.time.ms"]
        with trio.move_on_after(milliseconds / 1000) as starting:
            for role in roles:
                on_running(await nursery.start(_start_role, role, config))
        if starting.cancelled_caught:
            raise UserError(
                f"the node did not start within {milliseconds} ms",
                "that is the limit, server.max.startup.time.ms",
                "the log shows what it waited for; raise the limit if it was recovering logs",
            )
        on_ready()


async def _start_role(
    role: Role, config: ServerConfig, *, task_status: trio.TaskStatus[Any]
) -> None:
    await role(config, task_status=task_status)


async def _cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            notify(STOPPING)
            events.NODE_STOPPING.log(log, signal=signal.Signals(number).name)
            scope.cancel()
            return


def serve(config: ServerConfig, on_ready: Callable[[], object]) -> None:
    """Blocks until the node has stopped.

    Raises:
        UserError: it could not start, or had to stop.
        SystemExit: the same, if the log is JSON; the error is logged before, since each line of the log must be an
        object.
    """
    set_up(config)
    for warning in config.warnings.values():
        events.CONFIG_WARNING.log(log, warning=warning)
    for doubt in certificate_doubts(config, datetime.now(UTC)):
        events.CERTIFICATE_WARNING.log(log, key=doubt.key, what=doubt.text)
    _take_descriptors()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        _run(config, on_ready)
    except Exception as error:
        explained = explain(error)
        told = explained or UserError(
            "the node stopped because of a bug in trimaran",
            f"{type(error).__name__}: {error}",
            "please report it with this log",
        )
        if writes_json(config):
            cause = error if explained is None else None
            events.NODE_FAILED.log(log, exc_info=cause, what=told.what, why=told.why, fix=told.fix)
            sys.exit(told.exit_code)
        if explained is None:
            events.NODE_CRASHED.log(log, exc_info=True)
        raise told from error


def _run(config: ServerConfig, on_ready: Callable[[], object]) -> None:
    run = _run_with_metrics if config["trimaran.metrics.listener"] else _run_alone
    trio.run(run, config, on_ready, instruments=_instruments(config))


async def _run_alone(config: ServerConfig, on_ready: Callable[[], object]) -> None:
    await run_roles(roles_of(config), config, on_ready)


async def _run_with_metrics(config: ServerConfig, on_ready: Callable[[], object]) -> None:
    """Serves metrics next to the roles; their modules are imported only if a listener of metrics is set."""
    async with node_monitor.node_with_metrics(config) as monitor:
        roles = roles_of(config, monitor.mirrors)
        await run_roles(roles, config, on_ready, monitor.started)


def _instruments(config: ServerConfig) -> list[trio.abc.Instrument]:
    milliseconds = config["trimaran.log.slow.steps.ms"]
    return [logging_slow_steps(milliseconds)] if milliseconds else []


def _take_descriptors() -> None:
    """Raises the limit of descriptors to the hard limit, as Java does: the usual soft limit of 1,024 is meant for
    select().
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say_started(config: ServerConfig) -> None:
    """Prints the line for which scripts of Apache Kafka's users wait, and notifies systemd; a full disk does not stop
    the node.
    """
    notify(READY)
    node_id = config["node.id"]
    if writes_json(config):
        started = log.getChild("started")
        started.setLevel(logging.INFO)  # at any configured level, since scripts wait for it
        events.NODE_STARTED.log(started, node=node_id)
        return
    with contextlib.suppress(OSError):
        print(events.NODE_STARTED.text % {"node": node_id}, file=sys.stderr, flush=True)  # noqa: T201


VARIABLE = "NOTIFY_SOCKET"
READY, STOPPING = "READY=1", "STOPPING=1"


def notify(state: str) -> bool:
    """Sends the state to the manager that started the node, such as systemd with `Type=notify`: to the socket that
    `NOTIFY_SOCKET` names. Returns False if there is no socket, or no reader. Source: sd_notify(3).
    """
    path = os.environ.get(VARIABLE, "")
    if not path.startswith(("/", "@")):
        return False
    address = f"\0{path[1:]}" if path.startswith("@") else path  # an abstract socket of Linux
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)  # a manager that does not read must not block the node
        sock.sendto(state.encode(), address)
        return True
    return False
