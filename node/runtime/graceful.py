"""Graceful shutdown of a process: after the request to stop, all its parts keep running until it has handed over its
work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


async def run_gracefully(run: Callable[[trio.Event], Awaitable[object]]) -> None:
    """Runs `run(stop)`, shielded, until this is cancelled; then `stop` is set, and `run` must end soon.

    An exception of `run` is raised in an ExceptionGroup, as from any nursery.
    """
    stop = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_run_shielded, run, stop)
        try:
            await trio.sleep_forever()
        finally:
            stop.set()


async def _run_shielded(run: Callable[[trio.Event], Awaitable[object]], stop: trio.Event) -> None:
    with trio.CancelScope(shield=True):
        await run(stop)
