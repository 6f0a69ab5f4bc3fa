"""Runs trio for one command, with a ZooKeeper session if the command needs one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from trimaran.zkcompat.commands.errors import ZNodeRefusedError, ZooKeeperUnreachableError
from trimaran.zkcompat.mirroring.connecting import TLS_REMEDY
from trimaran.zkcompat.settings import Properties, keeper_config
from trimaran.zkcompat.zookeeper.errors import PathRefusedError, UncertainOutcomeError
from trimaran.zkcompat.zookeeper.keeper import Keeper, open_keeper

CONNECT_SECONDS = 5.0

T = TypeVar("T")


def with_keeper(connect: str, properties: Properties, use: Callable[[Keeper], Awaitable[T]]) -> T:
    """Runs trio with a session.

    Raises ZooKeeperUnreachableError, ZNodeRefusedError, ZooKeeperTooOldError, ValueError.
    """
    config = keeper_config(connect, properties)

    async def main() -> T:
        async with open_keeper(config) as keeper:
            if not await keeper.wait_connected(CONNECT_SECONDS):
                raise ZooKeeperUnreachableError(_why_unreachable(connect, keeper))
            await keeper.require_modern_server()
            return await use(keeper)

    try:
        return run_trio(main)
    except PathRefusedError as error:
        raise ZNodeRefusedError(f"ZooKeeper at {connect}: {error}") from error
    except UncertainOutcomeError as error:
        raise ZooKeeperUnreachableError(f"ZooKeeper at {connect}: {error}") from error


def _why_unreachable(connect: str, keeper: Keeper) -> str:
    if keeper.is_refused:
        keys = "trimaran.zk.auth or trimaran.zk.sasl.jaas.config"
        return f"{connect} refuses the user of {keys}: correct name and password"
    if problem := keeper.tls_problem:
        return f"TLS with {connect} failed: {problem}; {TLS_REMEDY}"
    return f"no ZooKeeper at {connect} within {CONNECT_SECONDS:.0f} s"


def run_trio(main: Callable[[], Awaitable[T]]) -> T:
    """Calls `trio.run`, and unwraps a single exception from the exception groups of nurseries."""
    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
