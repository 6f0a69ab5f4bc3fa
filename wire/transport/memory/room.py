"""The room for one response: its bytes are counted, bounded and held against the node's memory while it is made.

A handler whose response grows with the state of the node takes the `Room` of its `Call` and encodes each item as soon
as it is made: an encoded item takes a tenth of the memory of an object, items that are requested twice can share it,
and the response knows its size all the time. At the bound the item is refused (`ResponseTooLarge`), and the handler
says so of that item and of those that follow, or of the whole.

Memory is taken in three stages, so that small responses never wait long for large ones:

    up to 64 KiB   no pool is used
    up to 1 MiB    one of a few places (`Memory.large`)
    up to the end  twice the largest response in the pool of responses, as its items are joined when it is complete

A response that waits for a stage holds only the stage before, so responses never wait in a circle. One that takes more
than a first step goes on by one step in a turn of the loop, for all connections together: a thousand such responses
hold up no other. Not implemented: responses that are linear in their requests are not counted here; encoders bound
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from trimaran.wire.buffers.response_size import (
    ENCODED_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    ResponseTooLarge,
)
from trimaran.wire.codec.declarations import EncodedArray, Struct
from trimaran.wire.errors import KafkaError
from trimaran.wire.schema import Message, encode_element
from trimaran.wire.transport.memory.pools import Memory
from trimaran.wire.transport.scheduling.effects import Handling
from trimaran.wire.transport.scheduling.events import yield_to_loop

# Made between two checkpoints: some 1,000 small items, 5 to 10 ms of work.
STEP_BYTES = 64 << 10
# The same before the first one: half a millisecond, after which a response waits for its turn.
FIRST_STEP_BYTES = 4 << 10
# An item counts for at least this many bytes, for the work that it takes.
ITEM_BYTES = 64
# The memory that an item takes as an object.
OBJECT_BYTES = 256
# An item that is judged by ACLs takes as much work as this many that are only looked at.
JUDGED_WORK = 5
# How far a response may grow in each stage, and what is held from then on.
FREE_BYTES = 64 << 10
LARGE_BYTES = 1 << 20
HUGE_BYTES = 2 * RESPONSE_BYTES_MAX


class Room(Protocol):
    """The room as a handler sees it."""

    def take(self, size: int) -> None:
        """Counts `size` bytes of the response. Raises ResponseTooLarge, and counts nothing: it has no room for them."""
        ...

    def encoded(self, item: Struct) -> bytes:
        """An item of an array of the response, counted. Raises as `take`."""
        ...

    def refusal(self, item: Struct) -> bytes:
        """The same of an item that only says that, and why, something is not told. For that there is room, unless the
        request itself names that much; then it raises, and the request is refused as a whole.
        """
        ...

    @property
    def size(self) -> int:
        """The bytes that were counted."""
        ...

    def rewind(self, size: int) -> None:
        """Counts no more than `size`, as before: what was counted since is part of what comes next, or was dropped."""
        ...

    def worked(self, count: int) -> None:
        """Counts the work of looking at `count` things that are not part of the response."""
        ...

    def expect(self, size: int) -> None:
        """Announces bytes that are taken before they can be counted: `OBJECT_BYTES` for each item made at once. The
        handler yields `None` next, so that the transport can wait for the memory.
        """
        ...

    def encoding(self, items: Iterable[Struct]) -> Handling[EncodedArray]:
        """An array of the response; pauses in between. Raises as `take`."""
        ...

    def encoding_with(self, item: Any, name: str, elements: Iterable[Struct]) -> Handling[bytes]:
        """An item whose array `name` may be long: its elements are encoded one by one. Raises as `take`, and what
        `elements` raises; of the item nothing is counted then.
        """
        ...


class ResponseRoom:
    """That of a response in one version; `close` gives back what it holds."""

    __slots__ = ("_coming", "_held", "_is_full", "_memory", "_of", "_step", "_version", "size")

    def __init__(self, of: type[Message], version: int, memory: Memory) -> None:
        self.size = 0
        self._of = of
        self._version = version
        self._memory = memory
        # Counted since the last checkpoint.
        self._step = STEP_BYTES - FIRST_STEP_BYTES
        # Expected before the next pause.
        self._coming = 0
        # The response may grow to this size until more is acquired.
        self._held = FREE_BYTES
        # Something was refused: so is all that follows, or each would be made first.
        self._is_full = False

    def take(self, size: int) -> None:
        if self._is_full or self.size + size > RESPONSE_BYTES_MAX:
            self._is_full = True
            raise ResponseTooLarge
        self._count(size)

    def _count(self, size: int) -> None:
        self.size += size
        self._step += max(size, ITEM_BYTES)

    def encoded(self, item: Struct) -> bytes:
        data = encode_element(item, self._of, self._version)
        self.take(len(data))
        return data

    def refusal(self, item: Struct) -> bytes:
        data = encode_element(item, self._of, self._version)
        if self.size + len(data) > ENCODED_BYTES_MAX:
            raise ResponseTooLarge
        self._count(len(data))
        return data

    def rewind(self, size: int) -> None:
        self.size = size

    def worked(self, count: int) -> None:
        self._step += count * ITEM_BYTES

    def expect(self, size: int) -> None:
        self._coming = size

    def wants_pause(self) -> bool:
        """True if a pause is due; the transport reads this at each boundary of items."""
        if self._step + self._coming >= STEP_BYTES:
            return True
        self._coming = 0
        return False

    async def pause(self) -> None:
        """For the transport: others have their turn when enough was made; a large response waits for memory."""
        coming, self._coming = self._coming, 0
        if self._step + coming < STEP_BYTES:
            return
        self._step = 0
        size = self.size + coming
        if size > FREE_BYTES and self._held == FREE_BYTES:
            await self._memory.large.acquire(LARGE_BYTES)
            self._held = LARGE_BYTES
        if size > LARGE_BYTES and self._held == LARGE_BYTES:
            await self._memory.answers.acquire(HUGE_BYTES)
            self._held = HUGE_BYTES
        async with self._memory.making:
            await yield_to_loop()

    def encoding(self, items: Iterable[Struct]) -> Handling[EncodedArray]:
        found = EncodedArray()
        for item in items:
            found.append(self.encoded(item))
            yield None
        return found

    def encoding_with(self, item: Any, name: str, elements: Iterable[Struct]) -> Handling[bytes]:
        before = self.size
        try:
            setattr(item, name, (yield from self.encoding(elements)))
            data = encode_element(item, self._of, self._version)
            self.take(before + len(data) - self.size)
        except KafkaError:
            self.size = before
            raise
        return data

    def close(self) -> None:
        """Gives back the memory: the response is handed on, or no client waits for it any more."""
        if self._held >= LARGE_BYTES:
            self._memory.large.give_back(LARGE_BYTES)
        if self._held == HUGE_BYTES:
            self._memory.answers.give_back(HUGE_BYTES)
        self._held = FREE_BYTES
