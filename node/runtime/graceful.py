"""A process that takes its leave: told to stop, everything in it works on until it has handed over what it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


async def run_gracefully(run: Callable[[trio.Event], Awaitable[object]]) -> None:
    """Runs `run(stop)`, shielded, until this is cancelled: then `stop` is set, and `run` is to end by itself soon.

    An exception of `run` comes out in an ExceptionGroup, as from any nursery.
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
