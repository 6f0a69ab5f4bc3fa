"""The compute thread, for CPU-bound work: decoding and encoding of large messages, conversions, checks of records.

One item runs at a time; a second one would double the memory in use. Among the waiting connections, the one with the
least recent use of the thread is next, as in `trimaran.wire.transport.scheduling.turn`. An item is never interrupted,
so its expected time counts, too. A connection that needs the thread rarely and briefly therefore waits for the running
item, but rarely for another one. No connection waits forever: while it is passed over, its use decays, and that of
other connections grows.

Shares belong to connections, not to principals: one principal may represent all services of a company, or all peers if
they do not log in. Connections of one address are bounded by `max.connections.per.ip`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from typing import TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The expected duration of one item.
ITEM_SECONDS = 0.05

# The time in which use decays to a third. It is short enough that a connection that returns after a queue of long items
# is judged by its own requests, and long enough that a connection that returns immediately is not first again.
MEMORY_SECONDS = 2.0
# The maximum number of connections whose use is remembered: more connections cannot use the thread within a few
# seconds. All other connections count as unused.
KNOWN_MAX = 10_000


class _QueuedWork:
    __slots__ = ("expected", "task", "whom")

    def __init__(self, whom: Hashable, expected: float, task: trio.lowlevel.Task) -> None:
        self.whom = whom
        self.expected = expected
        self.task = task


class Shares:
    """The shares of one thread: `enter` returns when it is free for the caller, which must then call `leave` in any
    case.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._is_taken = False
        self._waiting: list[_QueuedWork] = []  # one for each waiting task
        # The use in seconds, decayed to a point in time.
        self._used: dict[Hashable, tuple[float, float]] = {}

    async def enter(self, whom: Hashable, expected: float) -> None:
        """Waits for the turn of an item that is expected to take `expected` seconds. No checkpoint if the thread is
        free.

        `whom` is a connection's id; None counts as a connection without recent use.
        """
        if not self._is_taken:
            self._is_taken = True
            return
        waiting = _QueuedWork(whom, expected, trio.lowlevel.current_task())
        self._waiting.append(waiting)

        def give_up(_: object) -> trio.lowlevel.Abort:
            self._waiting.remove(waiting)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def leave(self, whom: Hashable, seconds: float) -> None:
        """Counts the seconds that an item took, and admits the next one."""
        now = self._clock()
        if whom is not None:
            self._used[whom] = (self._lately(whom, now) + seconds, now)
        if len(self._used) > KNOWN_MAX:
            self._forget_half()
        if not self._waiting:
            self._is_taken = False
            return
        following = min(self._waiting, key=lambda one: self._lately(one.whom, now) + one.expected)
        self._waiting.remove(following)
        trio.lowlevel.reschedule(following.task)

    def _lately(self, whom: Hashable, now: float) -> float:
        seconds, at = self._used.get(whom, (0.0, now))
        return seconds * math.exp((at - now) / MEMORY_SECONDS)

    def _forget_half(self) -> None:
        """Forgets the half of the connections with the oldest use."""
        kept = sorted(self._used.items(), key=lambda one: one[1][1])[KNOWN_MAX // 2 :]
        self._used = dict(kept)


_thread: trio.lowlevel.RunVar[tuple[trio.CapacityLimiter, Shares]] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.scheduling.compute_thread"
)


async def run_apart(fn: Callable[[*Ts], T], *args: *Ts, whom: Hashable = None) -> T:
    """Runs `fn(*args)` in the thread.

    `whom` is the id of the connection that needs the result; None counts as a connection without recent use.
    """
    try:
        limiter, shares = _thread.get()
    except LookupError:
        limiter, shares = trio.CapacityLimiter(1), Shares()
        _thread.set((limiter, shares))
    await shares.enter(whom, ITEM_SECONDS)
    began = time.perf_counter()
    try:
        return await trio.to_thread.run_sync(fn, *args, limiter=limiter)
    finally:
        shares.leave(whom, time.perf_counter() - began)
