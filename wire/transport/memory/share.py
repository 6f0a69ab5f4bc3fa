"""The part of one connection in the pools of its listeners (`trimaran.wire.transport.memory.pools`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimaran.wire.buffers.framing import BUFFER_BYTES_KEPT

if TYPE_CHECKING:
    from trimaran.wire.transport.memory.pools import Memory, MemoryPool


class MemoryShare:
    """The bytes held, by pool; `frame` is the allowed buffer size: up to `BUFFER_BYTES_KEPT` no pool is used."""

    __slots__ = ("_memory", "frame", "requests", "responses")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.frame = BUFFER_BYTES_KEPT
        self.requests = 0
        self.responses = 0

    def of(self, pool: MemoryPool) -> int:
        memory = self._memory
        if pool is memory.frames:
            return self.frame if self.frame > BUFFER_BYTES_KEPT else 0
        if pool is memory.requests:
            return self.requests
        return self.responses if pool is memory.responses else 0

    async def acquire_frame(self, size: int) -> None:
        """Waits until a frame of `size` bytes may be received. It releases the bytes of the last frame first, so that
        no connection waits while it holds part of the pool.
        """
        self.give_back_frame()
        await self._memory.frames.acquire(size)
        self.frame = size

    def give_back_frame(self) -> None:
        if self.frame > BUFFER_BYTES_KEPT:
            self._memory.frames.give_back(self.frame)
            self.frame = BUFFER_BYTES_KEPT

    def take_request(self, size: int) -> None:
        self.requests += size
        self._memory.requests.take(size)

    def give_back_request(self, size: int) -> None:
        self.requests -= size
        self._memory.requests.give_back(size)

    def set_responses(self, size: int) -> None:
        """Sets the bytes of answers that are held now."""
        more = size - self.responses
        self.responses = size
        if more > 0:
            self._memory.responses.take(more)
        elif more < 0:
            self._memory.responses.give_back(-more)

    def give_back_all(self) -> None:
        """Releases all memory. The connection has ended, and none of its tasks waits."""
        self.give_back_frame()
        self.give_back_request(self.requests)
        self.set_responses(0)
