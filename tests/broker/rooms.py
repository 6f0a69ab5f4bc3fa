"""The memory room of a response, which notes how a handler uses it."""

from __future__ import annotations

from typing import Any

from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.transport.memory.room import ResponseRoom
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.scheduling.effects import Handling


class NotedRoom(ResponseRoom):
    """A real `ResponseRoom`. `noted` has the pauses, the expected sizes, and the elements that were encoded with their
    array; `sizes` has the counts at each pause.
    """

    __slots__ = ("noted", "sizes")

    def __init__(self, asked: Call) -> None:
        version = asked.header.api_version
        super().__init__(RESPONSES[asked.header.api_key], version, asked.connection.memory)
        self.noted: list[tuple[str, Any]] = []
        self.sizes: list[int] = []
        asked._room = self

    async def pause(self) -> None:
        self.noted.append(("pause", self._coming))
        self.sizes.append(self.size)
        await super().pause()

    def expect(self, size: int) -> None:
        self.noted.append(("expect", size))
        super().expect(size)

    def encoding_with(self, item: Any, name: str, elements: Any) -> Handling[bytes]:
        self.noted.append(("item", name))
        return (yield from super().encoding_with(item, name, elements))
