"""A broker with the offsets that old consumers keep in ZooKeeper; `broker/` does not import ZooKeeper's client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio

from trimaran.broker.process.server import RunningBroker, run_broker
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.controller.server import RunningController
from trimaran.running.controller_role import texts_of
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
    from trimaran.zkcompat import settings
    from trimaran.zkcompat.legacy import consumer_offsets
else:
    settings = imported_later("trimaran.zkcompat.settings")
    consumer_offsets = imported_later("trimaran.zkcompat.legacy.consumer_offsets")


async def run_broker_role(
    config: ServerConfig,
    *,
    controller: RunningController | None = None,
    task_status: trio.TaskStatus[RunningBroker] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a broker until it is cancelled; raises as `run_broker` does."""
    async with _zookeeper_offsets(config) as offsets:
        await run_broker(
            config, controller=controller, zookeeper_offsets=offsets, task_status=task_status
        )


@asynccontextmanager
async def _zookeeper_offsets(config: ServerConfig) -> AsyncIterator[ZooKeeperOffsets | None]:
    """Yields the offsets in ZooKeeper; None if no ZooKeeper is configured."""
    connect = config["zookeeper.connect"]
    if not connect:
        yield None
        return
    async with consumer_offsets.open_consumer_offsets(
        settings.keeper_config(connect, texts_of(config))
    ) as offsets:
        yield offsets
