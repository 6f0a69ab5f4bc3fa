"""A node with its metrics, which are there before its roles start and until they have ended."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import trio

from node.config.server import ServerConfig
from trimaran.metrics.monitored_node import MonitoredNode
from trimaran.metrics.serving import address_of, serving_metrics

log = logging.getLogger(__name__)

RunRoles = Callable[[Callable[[Any], object]], Awaitable[None]]
"""Is given whom to tell of a role that serves."""


def run_with_metrics(
    run_roles: RunRoles, config: ServerConfig, instruments: Sequence[trio.abc.Instrument]
) -> None:
    """Runs the loop. Raises ConfigError and OSError for the address, else what the roles raise."""
    address = address_of(config)
    assert address is not None, "somebody asked for metrics"
    state = MonitoredNode(config)

    async def run() -> None:
        async with serving_metrics(address, state) as server:
            log.info("metrics are served at http://%s:%d/metrics", *server.address)

            def on_running(role: Any) -> None:
                state.started(role)
                server.collector.follow_elections()

            await run_roles(on_running)

    trio.run(run, instruments=[*instruments, state.loop_times])
