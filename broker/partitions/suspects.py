"""Records that a follower asks for again and again: noted here, until a task checks them for damage on this disk."""

from __future__ import annotations

from typing import NamedTuple

from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.transport.scheduling.events import AutoResetEvent

# Read at once for a look: as much as a Fetch answer holds.
LOOK_BYTES_MAX = 16 << 20


class Suspect(NamedTuple):
    """The records of a partition from `offset` on, up to `size` bytes."""

    key: TopicPartition
    offset: Offset
    size: int


class Suspects:
    """The places to check: at most one in each partition that is led here."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, Suspect] = {}
        self._wanted = AutoResetEvent()

    def add(self, key: TopicPartition, offset: Offset, size: int) -> None:
        """Looks at them soon; at those with the lowest offset, if several wait."""
        waiting = self._waiting.get(key)
        if waiting is None or offset < waiting.offset:
            self._waiting[key] = Suspect(key, offset, min(size, LOOK_BYTES_MAX))
        self._wanted.set()

    async def take(self) -> Suspect:
        """The next one; waits for it."""
        while not self._waiting:
            await self._wanted.wait()
        return self._waiting.popitem()[1]
