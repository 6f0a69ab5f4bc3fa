"""The room for one response: its bytes are counted, bounded and charged to the node's memory while it is created.

A handler whose response grows with the state of the node takes the `Room` of its `Call` and encodes each item as soon
as it is created: an encoded item takes a tenth of the memory of an object, repeated items can share it, and the size of
the response is always known. At the bound the item is refused (`ResponseTooLarge`), and the handler returns that error
for this and all further items, or for the whole request.

Memory is acquired in three stages, so that small responses never wait long for large ones:

    up to 64 KiB   no pool is used
    up to 1 MiB    one of a few places (`Memory.large`)
    up to the end  twice the largest response in the pool of responses, as its items are joined when it is complete

A response that waits for a stage holds only the previous stage, so responses never deadlock. Responses that take more
than a first step continue by one step per turn of the loop, for all connections together: a thousand of them do not
delay others. Responses that are linear in their requests are not counted here; encoders bound them.
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

# The bytes encoded between two checkpoints: about 1,000 small items, 5 to 10 ms of work.
STEP_BYTES = 64 << 10
# The bytes encoded before the first checkpoint: half a millisecond, after which a response waits for its turn.
FIRST_STEP_BYTES = 4 << 10
# An item counts as at least this many bytes, because of the work that it takes.
ITEM_BYTES = 64
# The memory that an item takes as a Python object.
OBJECT_BYTES = 256
# Checking an item against ACLs takes as much work as visiting this many items.
JUDGED_WORK = 5
# The size up to which a response may grow in each stage, and the pool held from then on.
FREE_BYTES = 64 << 10
LARGE_BYTES = 1 << 20
HUGE_BYTES = 2 * RESPONSE_BYTES_MAX


class Room(Protocol):
    """The interface of the room for handlers."""

    def take(self, size: int) -> None:
        """Counts `size` bytes of the response. If there is no room for them, it raises ResponseTooLarge and does not
        count them.
        """
        ...

    def encoded(self, item: Struct) -> bytes:
        """Encodes and counts an item of an array of the response. Raises as `take` does."""
        ...

    def refusal(self, item: Struct) -> bytes:
        """Encodes and counts an item that carries only an error. There is room for it, unless the request itself names
        too many items: then ResponseTooLarge is raised, and the request is refused as a whole.
        """
        ...

    @property
    def size(self) -> int:
        """Returns the number of bytes counted."""
        ...

    def rewind(self, size: int) -> None:
        """Resets the count to an earlier `size`: the bytes counted since belong to the next item, or were dropped."""
        ...

    def worked(self, count: int) -> None:
        """Counts the work of visiting `count` objects that are not part of the response."""
        ...

    def expect(self, size: int) -> None:
        """Announces bytes that are used before they can be counted: `OBJECT_BYTES` for each item created in one step.
        The handler yields `None` next, so that the transport can wait for the memory.
        """
        ...

    def encoding(self, items: Iterable[Struct]) -> Handling[EncodedArray]:
        """Encodes an array of the response, with pauses between items. Raises as `take` does."""
        ...

    def encoding_with(self, item: Any, name: str, elements: Iterable[Struct]) -> Handling[bytes]:
        """Encodes an item whose array `name` may be long: its elements are encoded one by one. Raises as `take`, and
        the exceptions of `elements`; the item is then not counted.
        """
        ...


class ResponseRoom:
    """The room for a response of one version; `close` releases the held memory."""

    __slots__ = ("_coming", "_held", "_is_full", "_memory", "_of", "_step", "_version", "size")

    def __init__(self, of: type[Message], version: int, memory: Memory) -> None:
        self.size = 0
        self._of = of
        self._version = version
        self._memory = memory
        # Bytes counted since the last checkpoint.
        self._step = STEP_BYTES - FIRST_STEP_BYTES
        # Bytes expected before the next pause.
        self._coming = 0
        # The size to which the response may grow before more memory is acquired.
        self._held = FREE_BYTES
        # Set after a refusal: all later items are refused before they are encoded.
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
        """Whether a pause is due; the transport checks this after each item."""
        if self._step + self._coming >= STEP_BYTES:
            return True
        self._coming = 0
        return False

    async def pause(self) -> None:
        """Lets other tasks run after enough work; a large response waits for memory. Called by the transport."""
        coming, self._coming = self._coming, 0
        if self._step + coming < STEP_BYTES:
            return
        self._step = 0
        size = self.size + coming
        if size > FREE_BYTES and self._held == FREE_BYTES:
            await self._memory.large.acquire(LARGE_BYTES)
            self._held = LARGE_BYTES
        if size > LARGE_BYTES and self._held == LARGE_BYTES:
            await self._memory.responses.acquire(HUGE_BYTES)
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
        """Releases the memory: the response was passed on, or no client waits for it any longer."""
        if self._held >= LARGE_BYTES:
            self._memory.large.give_back(LARGE_BYTES)
        if self._held == HUGE_BYTES:
            self._memory.responses.give_back(HUGE_BYTES)
        self._held = FREE_BYTES
