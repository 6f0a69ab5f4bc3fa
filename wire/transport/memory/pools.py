"""The memory that connections of one kind of listener may hold together, in bytes.

The pools are separate, so no connection waits for a pool of which it holds a part: buffers of arriving frames (released
when the frame's request begins), running requests (released when they are answered), growing responses, the largest
growing responses, and the responses that peers have not read yet. Source: KIP-72 and `SimpleMemoryPool`, which bound
arriving frames. Here the bound is enabled by default: a broker that runs out of memory fails all its clients, but a
broker that stops reading only delays clients that send a lot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from trimaran.wire.transport.memory.bounds import REQUEST_BYTES_MAX, RESPONSES_BYTES_MAX
from trimaran.wire.transport.scheduling.events import AutoResetEvent

# The bytes of responses that have grown beyond the free size: 16 at a time, of a megabyte each (`memory/room.py`).
LARGE_BYTES_MAX = 16 << 20
# The number of other connections that are granted memory before the longest-waiting connection.
PASSED_MAX = 1000
# The assumed size of a request or answer whose size is unknown, so that only a few waits end at the same time.
EXPECTED_BYTES = 1 << 20
# The memory of an element of a decoded request, including its numbers, its share of lists, the state that is looked up
# for it and its item in the response; structs take 80 to 250 bytes. Requests for 150,000 partitions took 400 to 500
# bytes per element.
ELEMENT_BYTES = 384


class MemoryPool:
    """A pool of bytes. The smallest waiting amount is granted next; among equal amounts, the first to arrive.

    Connections that announce large frames and send no bytes therefore delay only a few other connections. As in Kafka,
    any amount is granted while fewer than `bytes_max` are held: an amount larger than the pool is also granted, and at
    most one grant exceeds the bound.
    """

    __slots__ = ("_pressed", "_waiting", "bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0
        self._waiting: deque[_Waiting] = deque()
        self._pressed = AutoResetEvent()

    @property
    def is_full(self) -> bool:
        return self.used >= self.bytes_max

    @property
    def waiting(self) -> int:
        """Returns the number of waiting connections."""
        return len(self._waiting)

    def take(self, size: int) -> None:
        """Holds `size` more bytes without waiting."""
        self.used += size

    def give_back(self, size: int) -> None:
        self.used -= size
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        while self._waiting and self.used < self.bytes_max:
            chosen = self._next()
            self._waiting.remove(chosen)
            self.used += chosen.size
            chosen.granted.set()

    def _next(self) -> _Waiting:
        oldest = self._waiting[0]
        smallest = min(self._waiting, key=lambda one: one.size)
        if smallest.size == oldest.size or oldest.passed >= PASSED_MAX:
            return oldest
        oldest.passed += 1
        return smallest

    async def acquire(self, size: int) -> None:
        """Waits until there is room, then holds `size` bytes; no checkpoint if there is room."""
        if not self._waiting and self.used < self.bytes_max:
            self.used += size
            return
        waiting = _Waiting(size)
        self._waiting.append(waiting)
        self._pressed.set()
        try:
            await waiting.granted.wait()
        except trio.Cancelled:
            if waiting.granted.is_set():
                self.give_back(size)
            else:
                self._waiting.remove(waiting)
            raise

    async def wait_pressed(self) -> None:
        """Returns when a connection waits."""
        while not self._waiting:
            await self._pressed.wait()


@asynccontextmanager
async def holding(pool: MemoryPool, size: int) -> AsyncIterator[None]:
    """Holds `size` bytes in the block, for which it waits."""
    await pool.acquire(size)
    try:
        yield
    finally:
        pool.give_back(size)


@dataclass(slots=True, eq=False)
class _Waiting:
    size: int
    passed: int = 0
    granted: trio.Event = field(default_factory=trio.Event)


class Memory:
    """The pools. A handler that holds `large` may then wait for `responses` and for no other pool. A handler that
    continues a large response holds `making` for one turn of the loop.
    """

    __slots__ = ("frames", "large", "making", "requests", "responses")

    def __init__(
        self,
        request_bytes_max: int = REQUEST_BYTES_MAX,
        responses_bytes_max: int = RESPONSES_BYTES_MAX,
    ) -> None:
        """Divides `request_bytes_max` equally between arriving frames and running requests."""
        self.frames = MemoryPool(request_bytes_max // 2)
        self.requests = MemoryPool(request_bytes_max // 2)
        self.large = MemoryPool(LARGE_BYTES_MAX)
        self.making = trio.Lock()
        self.responses = MemoryPool(responses_bytes_max)

    def pools(self) -> tuple[MemoryPool, MemoryPool, MemoryPool]:
        """Returns the pools of which a connection may hold bytes while its peer is inactive."""
        return self.frames, self.requests, self.responses
