"""Records that a follower fetches again and again: kept here until a task checks them for damage on this disk."""

from __future__ import annotations

from typing import NamedTuple

from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.transport.scheduling.events import AutoResetEvent

# The number of bytes read for one check: the maximum size of a Fetch response.
LOOK_BYTES_MAX = 16 << 20


class Suspect(NamedTuple):
    """The records of a partition from `offset` on, up to `size` bytes."""

    key: TopicPartition
    offset: Offset
    size: int


class Suspects:
    """The records to check: at most one position in each partition that this broker leads."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, Suspect] = {}
        self._wanted = AutoResetEvent()

    def add(self, key: TopicPartition, offset: Offset, size: int) -> None:
        """Requests a check of the records; if several positions of a partition wait, keeps the lowest offset."""
        waiting = self._waiting.get(key)
        if waiting is None or offset < waiting.offset:
            self._waiting[key] = Suspect(key, offset, min(size, LOOK_BYTES_MAX))
        self._wanted.set()

    async def take(self) -> Suspect:
        """Waits for the next suspect, and returns it."""
        while not self._waiting:
            await self._wanted.wait()
        return self._waiting.popitem()[1]
