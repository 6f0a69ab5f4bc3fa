"""The newest value of something, to be waited for. It keeps no history; a reader that needs every value follows a
log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from trimaran.wire.transport.scheduling.events import Notifier

T = TypeVar("T")


class Latest(Generic[T]):
    """Slow readers miss intermediate values, never the last one."""

    __slots__ = ("_changed", "_value")

    def __init__(self, value: T) -> None:
        self._value = value
        self._changed = Notifier()

    @property
    def value(self) -> T:
        return self._value

    def set(self, value: T) -> None:
        """Replaces the value and wakes all waiting tasks, also if it is equal to the old one."""
        self._value = value
        self._changed.notify_all()

    async def wait_not(self, seen: T) -> T:
        """Returns the value once it differs from `seen`."""
        return await self.wait_for(lambda value: value != seen)

    async def wait_for(self, wanted: Callable[[T], bool]) -> T:
        """Returns the first value that a waiter gets to see for which `wanted` is true."""
        await trio.lowlevel.checkpoint()
        while not wanted(self._value):
            await self._changed.wait()
        return self._value
