"""Channels to other brokers, with scripted responses: every message is encoded and decoded in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from tests.broker.calls import through_wire
from trimaran.wire.schema import Message


class Channels:
    """`asked`: the time (in ms since the first request), the broker, the request, and its timeout in seconds. `answer`
    receives the broker and the request, and returns the response or raises.
    """

    def __init__(self, version: int, answer: Callable[[int, Any], Message]) -> None:
        self.version = version
        self.answer = answer
        self.asked: list[tuple[int, int, Any, float]] = []
        self._began: float | None = None

    async def call(self, broker_id: int, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        await trio.lowlevel.checkpoint()
        now = trio.current_time()
        self._began = now if self._began is None else self._began
        request = through_wire(request, self.version)
        self.asked.append((round((now - self._began) * 1000), broker_id, request, timeout))
        return through_wire(self.answer(broker_id, request), self.version)

    def times(self) -> list[int]:
        return [when for when, *_ in self.asked]
