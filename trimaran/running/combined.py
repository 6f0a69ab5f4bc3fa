"""Controller and broker in one process, with a shared replica of the metadata log: `process.roles=broker,controller`.

The broker stops first, since it needs a controller to hand over its partitions.
Source: Kafka's `SharedServer`.
"""

from __future__ import annotations

import trio

from trimaran.broker.process.server import RunningBroker
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.controller.server import RunningController
from trimaran.running.broker_role import run_broker_role
from trimaran.running.controller_role import OnMirror, run_controller_role


async def run_combined(
    config: ServerConfig,
    *,
    on_mirror: OnMirror = lambda _: None,
    task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs both roles until it is cancelled; raises as `run_controller_role` and `run_broker_role` do."""
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope(shield=True)
        running: RunningController = await nursery.start(_run_controller, config, scope, on_mirror)
        try:
            await run_broker_role(config, controller=running, task_status=task_status)
        finally:
            scope.cancel()


async def _run_controller(
    config: ServerConfig,
    scope: trio.CancelScope,
    on_mirror: OnMirror,
    *,
    task_status: trio.TaskStatus[RunningController] = trio.TASK_STATUS_IGNORED,
) -> None:
    with scope:
        await run_controller_role(config, on_mirror=on_mirror, task_status=task_status)
