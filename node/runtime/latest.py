"""The newest value of a variable, for which tasks can wait. It keeps no history; a reader that needs every value must
read a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from trimaran.wire.transport.scheduling.events import Notifier

T = TypeVar("T")


class Latest(Generic[T]):
    """The newest value. Slow readers miss intermediate values, but never the last one."""

    __slots__ = ("_changed", "_value")

    def __init__(self, value: T) -> None:
        self._value = value
        self._changed = Notifier()

    @property
    def value(self) -> T:
        return self._value

    def set(self, value: T) -> None:
        """Replaces the value and wakes all waiting tasks, even if it equals the old one."""
        self._value = value
        self._changed.notify_all()

    async def wait_not(self, seen: T) -> T:
        """Returns the value once it differs from `seen`."""
        return await self.wait_for(lambda value: value != seen)

    async def wait_for(self, wanted: Callable[[T], bool]) -> T:
        """Returns the first value for which `wanted` is true when this task runs."""
        await trio.lowlevel.checkpoint()
        while not wanted(self._value):
            await self._changed.wait()
        return self._value
