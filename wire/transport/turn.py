"""Whose requests begin: at once while the loop has little to do, else those of who took the least of it lately.

trio runs every task that is ready once in each turn of its loop. With a hundred connections that always have something
to do a turn would take a hundred slices, and whoever asks for little would wait so long for each step of its request.
So between two turns only `TURN_SECONDS` of requests are begun; who comes later waits in line, and who has taken little
lately goes before who took much. Everything that a connection does on the loop counts; what follows from its requests
is held back as they are. Left out: other tasks of the loop.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import trio

from wire.transport.loop_time import LoopTime

# For so long requests are begun between two turns of the loop, and so long is the slice of one connection. A turn of
# the loop itself takes some 40 µs; and a request waits for some five turns.
TURN_SECONDS = 0.00025
# What a connection took so long ago counts a third of what it takes now: some hundred slices.
MEMORY_SECONDS = 0.1
# Taken for who took nothing.
_LEAST_SECONDS = 1e-6


class _Waiting:
    """In line. `task` is None once it gave up."""

    __slots__ = ("expected", "task")

    def __init__(self, task: trio.lowlevel.Task, expected: float) -> None:
        self.task: trio.lowlevel.Task | None = task
        self.expected = expected


class TurnQueue(trio.abc.Instrument):
    """Of the connections that share a loop: each has a `Turn`. Counts the turns of the loop as its instrument."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        # Seconds of this turn of the loop, with those that are expected of who was let in and has not run.
        self._taken = 0.0
        # The same of the next one.
        self._granted = 0.0
        # A heap; with those who gave up, who do not count.
        self._waiting: list[tuple[float, int, _Waiting]] = []
        self._in_line = 0
        self._numbers = itertools.count()

    def after_io_wait(self, _timeout: float) -> None:
        """trio: another turn of the loop."""
        self._taken, self._granted = self._granted, 0.0

    def has_room(self) -> bool:
        """Whether one more may begin in this turn."""
        return self._taken < TURN_SECONDS and not self._in_line

    async def enter(self, order: float, expected: float) -> None:
        """Waits in line for another turn of the loop: those with the least `order` go first. It is then expected to
        take so many seconds, until `took` says how many it took.
        """
        if not self._granted and not self._in_line:
            self._granted += expected
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self.took(0.0, expected)
                raise
            return
        waiting = _Waiting(trio.lowlevel.current_task(), expected)
        heapq.heappush(self._waiting, (order, next(self._numbers), waiting))
        self._in_line += 1

        def give_up(_: object) -> trio.lowlevel.Abort:
            waiting.task = None
            self._in_line -= 1
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def took(self, seconds: float, expected: float) -> None:
        """So much of this turn is taken, where so much was expected; lets in who may run in the next turn. Whoever
        entered says this in that turn, so nobody is forgotten.
        """
        self._taken += seconds - expected
        while self._waiting and self._granted < TURN_SECONDS:
            waiting = heapq.heappop(self._waiting)[2]
            if waiting.task is not None:
                self._in_line -= 1
                self._granted += waiting.expected
                trio.lowlevel.reschedule(waiting.task)


@contextmanager
def counting_turns(queues: Iterable[TurnQueue]) -> Iterator[None]:
    """In the block they are told of each turn of the loop."""
    with ExitStack() as stack:
        for queue in queues:
            trio.lowlevel.add_instrument(queue)
            stack.callback(trio.lowlevel.remove_instrument, queue)
        yield


class Turn:
    """Of one connection: its slices, and what it took of the loop lately. Its steps never overlap."""

    __slots__ = ("_at", "_ends", "_entered", "_last", "_lately", "_queue", "loop_time")

    def __init__(self, queue: TurnQueue, loop_time: LoopTime) -> None:
        self.loop_time = loop_time
        self._queue = queue
        self._lately = 0.0
        self._at = 0.0
        self._ends = 0.0
        # What the queue expects of a slice that it let in, and what the last one took.
        self._entered = 0.0
        self._last = TURN_SECONDS

    async def begin(self) -> None:
        """Begins a slice; no checkpoint where there is room for it."""
        queue = self._queue
        if not queue.has_room():
            expected = min(self._last, TURN_SECONDS)
            await queue.enter(self._order(), expected)
            self._entered = expected
        self.resume()

    def is_over(self) -> bool:
        """Whether others are to have their turn, as a slice has ended, or none began."""
        return self._queue.clock() > self._ends

    def end(self) -> None:
        """Ends a slice, if one runs."""
        if self.loop_time.began is not None:
            self._last = self.pause()

    def resume(self) -> None:
        """A step begins."""
        now = self._queue.clock()
        self.loop_time.began = now
        self._ends = now + TURN_SECONDS

    def pause(self) -> float:
        """It has ended; answers how long it took."""
        began, now = self.loop_time.began, self._queue.clock()
        assert began is not None
        self.loop_time.began = None
        self._ends = 0.0
        self._count(now - began, now)
        return now - began

    def add(self, seconds: float) -> None:
        """What it took of the loop beside its slices and steps."""
        if seconds:
            self._count(seconds, self._queue.clock())

    def _count(self, seconds: float, now: float) -> None:
        self.loop_time.seconds += seconds
        self._lately = self._lately * math.exp((self._at - now) / MEMORY_SECONDS) + seconds
        self._at = now
        entered, self._entered = self._entered, 0.0
        self._queue.took(seconds, entered)

    def _order(self) -> float:
        """Greater for who took more lately, at whatever time it is asked: all fade alike."""
        return math.log(self._lately + _LEAST_SECONDS) + self._at / MEMORY_SECONDS
