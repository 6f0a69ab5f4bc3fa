"""Events that happen again and again, unlike `trio.Event`, which happens once; and how tasks let others run.

An event does not say which waiter is woken first, nor what has happened: the waiter looks at the state.
"""

from __future__ import annotations

import trio

yield_to_loop = trio.lowlevel.checkpoint
"""Lets every task that is ready run once, and cancellation in. By its own name `checkpoint` is trio's rule that async
functions have one.
"""


class AutoResetEvent:
    """An event for one waiting task, which resets it by waiting: a `set` that comes before, or while it works, is not
    lost.

    Any number of `set` between two waits are one.
    """

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        # Created on demand: it takes half a kilobyte, and every connection has events without a waiter.
        self._event: trio.Event | None = None

    def set(self) -> None:
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def is_set(self) -> bool:
        return self._is_set

    async def wait(self) -> None:
        """Returns once it is set; a wait that is cancelled leaves it set."""
        if self._is_set:
            await yield_to_loop()
        else:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()
        self._is_set, self._event = False, None


class Notifier:
    """Wakes all tasks that wait at this moment, as `trio.Condition` does, without a lock: state changes between
    checkpoints only.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = trio.Event()

    def notify_all(self) -> None:
        event, self._event = self._event, trio.Event()
        event.set()

    async def wait(self) -> None:
        """Returns at the next `notify_all`. Look at the state before: an earlier event is not repeated."""
        await self._event.wait()
