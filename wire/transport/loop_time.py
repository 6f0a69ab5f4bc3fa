"""How long a request keeps the event loop: the time of its own steps, not of what it waits for."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from wire.transport.calls import Call

T = TypeVar("T")


class LoopTimed(Generic[T]):
    """Awaits `awaitable`, and adds its steps to `loop_seconds` of the call. Work in threads is not among them."""

    __slots__ = ("_awaitable", "_call")

    def __init__(self, awaitable: Awaitable[T], call: Call) -> None:
        self._awaitable = awaitable
        self._call = call

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaitable.__await__()
        step: Callable[[], Any] = partial(next, steps)
        while True:
            began = time.perf_counter()
            try:
                awaited = step()
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                self._call.kept_loop(time.perf_counter() - began)
            try:
                step = partial(steps.send, (yield awaited))
            except BaseException as error:  # noqa: BLE001 - it is for the awaited to handle
                step = partial(steps.throw, error)
