"""The time for which a connection occupies the event loop: reading, decoding, handling, encoding and sending, without
waits and work in threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar

from trimaran.wire.transport.scheduling.events import yield_to_loop

T = TypeVar("T")


class LoopTime:
    """The loop time of one connection, in seconds. Source: Kafka also counts the time of its network threads for
    `request_percentage` (`KafkaChannel.addNetworkThreadTimeNanos`).
    """

    __slots__ = ("began", "seconds", "taken")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.taken = 0.0
        # The start of the current step; None between steps.
        self.began: float | None = None

    def take(self, now: float) -> float:
        """Returns the seconds counted since the last call, including the current step."""
        seconds = self.seconds if self.began is None else self.seconds + now - self.began
        before, self.taken = self.taken, seconds
        return seconds - before


class Timed(Protocol):
    """The owner of steps whose time is counted."""

    def resume(self) -> object:
        """Notes that a step begins."""

    def pause(self) -> object:
        """Notes that the step has ended."""


class TurnOfRequests(Timed, Protocol):
    """The turn of a connection's requests. Implemented by `trimaran.wire.transport.scheduling.turn.Turn`."""

    async def begin(self) -> None:
        """Waits until other connections have been served, then begins a slice of time."""

    def is_over(self) -> bool:
        """Whether the slice has ended."""

    def end(self) -> None:
        """Ends the slice early."""


class Unscheduled:
    """The turn of requests without a connection: other tasks run between two slices, which last `seconds`."""

    __slots__ = ("_ends", "_seconds")

    def __init__(self, seconds: float = math.inf) -> None:
        self._seconds = seconds
        self._ends = perf_counter() + seconds

    async def begin(self) -> None:
        await yield_to_loop()
        self._ends = perf_counter() + self._seconds

    def is_over(self) -> bool:
        return perf_counter() > self._ends

    def end(self) -> None:
        pass

    def resume(self) -> None:
        pass

    def pause(self) -> None:
        pass


class LoopTimed(Generic[T]):
    """Awaits `coroutine`, and notifies `timed` of each of its steps."""

    __slots__ = ("_coroutine", "_timed")

    def __init__(self, coroutine: Coroutine[Any, Any, T], timed: Timed) -> None:
        self._coroutine = coroutine
        self._timed = timed

    def __await__(self) -> Generator[Any, Any, T]:
        timed, send = self._timed, self._coroutine.send
        step: Callable[[Any], Any] = send
        given: Any = None
        while True:
            timed.resume()
            try:
                awaited = step(given)
            except StopIteration as ended:
                result: T = ended.value
                return result
            finally:
                # The error refers to this frame, which would refer to the error: a cycle.
                given = None
                timed.pause()
            try:
                given, step = (yield awaited), send
            except BaseException as error:  # noqa: BLE001 - it is for the coroutine to handle
                given, step = error, self._coroutine.throw
