"""Tasks that outlive the call that starts them; they run in the `run` task of an object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVarTuple

import trio

Ts = TypeVarTuple("Ts")


class Tasks:
    """Tasks started by `start_soon` while `run` is running; all of them end with it."""

    def __init__(self) -> None:
        self._nursery: trio.Nursery | None = None

    @property
    def are_running(self) -> bool:
        return self._nursery is not None

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def start_soon(self, function: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Starts a task; allowed only while they `are_running`."""
        assert self._nursery is not None
        self._nursery.start_soon(function, *args)
