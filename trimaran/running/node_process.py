"""Runs one node in this process until a signal: what a supervisor's child and `trimaran broker start` share.

SIGTERM and SIGINT cancel the node's task; a broker then hands over its leaderships (controlled shutdown) before it
goes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import trio

from trimaran.errors.node import explain, of_config
from trimaran.errors.user_error import UserError
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig, parse
from trimaran.node.runtime.service_manager import READY, STOPPING, notify
from trimaran.node.runtime.slow_steps import logging_slow_steps
from trimaran.running import events
from trimaran.running.log_lines import set_up, writes_json
from trimaran.settings.properties import Setting, resolved

log = logging.getLogger(__name__)

# For so long a thread that is back from the disk waits for the interpreter's lock while the loop is busy, and that some
# ten times for a produce; Python's 5 ms would be more than all else that a request waits for. To switch costs some
# 10 µs, and happens only while a thread waits.
SWITCH_SECONDS = 0.00005

Role = Callable[..., Awaitable[None]]


def parse_config(settings: Mapping[str, Setting], *, to_serve: bool = False) -> ServerConfig:
    """Checks all settings; a wrong value is a `UserError` that names its origin.

    Keys without effect warn on stderr; with `to_serve` it is `serve` that warns of them, in the node's log.
    """
    settings = resolved(settings, os.environ)
    try:
        config = parse(settings)
    except ConfigError as error:
        raise of_config(error) from error
    for warning in () if to_serve else config.warnings.values():
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201
    return config


def roles_of(
    config: ServerConfig, on_mirror: Callable[[Any], object] = lambda _: None
) -> list[Role]:
    """The role functions that `process.roles` names; imported on demand, a controller needs no broker. `on_mirror` gets
    the mirror of a controller that has one.
    """
    if config.is_controller and config.is_broker:
        from trimaran.running.combined import run_combined

        return [partial(run_combined, on_mirror=on_mirror)]
    roles: list[Role] = []
    if "controller" in config["process.roles"]:
        from trimaran.running.controller_role import run_controller_role

        roles.append(partial(run_controller_role, on_mirror=on_mirror))
    if "broker" in config["process.roles"]:
        from trimaran.running.broker_role import run_broker_role

        roles.append(run_broker_role)
    return roles


async def run_roles(
    roles: list[Role],
    config: ServerConfig,
    on_ready: Callable[[], object],
    on_running: Callable[[Any], object] = lambda _: None,
) -> None:
    """Runs the roles until a signal; `on_running` is given what each reports when it serves, `on_ready` is called once
    all of them do.

    Raises:
        UserError: they did not within `server.max.startup.time.ms`.
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
        SystemExit: the same, where the log is JSON; it says so itself, since whoever reads it expects an object a line.
    """
    set_up(config)
    for warning in config.warnings.values():
        events.CONFIG_WARNING.log(log, warning=warning)
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
    """Serves metrics beside the roles, where somebody asked for them: nothing of it is imported else."""
    from trimaran.metrics.server import node_with_metrics

    async with node_with_metrics(config) as monitor:
        roles = roles_of(config, monitor.mirrors)
        await run_roles(roles, config, on_ready, monitor.started)


def _instruments(config: ServerConfig) -> list[trio.abc.Instrument]:
    milliseconds = config["trimaran.log.slow.steps.ms"]
    return [logging_slow_steps(milliseconds)] if milliseconds else []


def _take_descriptors() -> None:
    """All that this process may have, as Java does: the usual soft limit of 1,024 is for programs that use select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def say_started(config: ServerConfig) -> None:
    """The line that scripts of Apache Kafka's users wait for, and the word that systemd does; a full disk is no reason
    to end.
    """
    notify(READY)
    node_id = config["node.id"]
    if writes_json(config):
        started = log.getChild("started")
        started.setLevel(logging.INFO)  # whatever the level of the rest is, somebody waits for it
        events.NODE_STARTED.log(started, node=node_id)
        return
    with contextlib.suppress(OSError):
        print(events.NODE_STARTED.text % {"node": node_id}, file=sys.stderr, flush=True)  # noqa: T201
