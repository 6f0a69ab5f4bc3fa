"""Whose requests begin: at once while the loop has little to do, else those of who took the least of it lately.

trio runs every task that is ready once in each turn of its loop. With a hundred connections that always have something
to do a turn would take a hundred slices, and whoever asks for little would wait so long for each step of its request.
So between two turns only `TURN_SECONDS` of requests are begun; who comes later waits in line, and who has taken little
lately goes before who took much, or at once. Everything that a connection does on the loop counts; what follows from
its requests is held back as they are. Left out: other tasks of the loop.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable

import trio

from trimaran.wire.transport.scheduling.loop_time import LoopTime
from trimaran.wire.transport.scheduling.loop_turns import LoopTurns
from trimaran.wire.transport.scheduling.slice_end import slice_end

# For so long requests are begun between two turns of the loop, and so long is the slice of one connection. A turn of
# the loop itself takes some 40 µs; and a request waits for some five turns.
TURN_SECONDS = 0.00025
# The slice of a connection beside which no other was served for `MEMORY_SECONDS`: a shorter one would serve nobody, and
# cost a turn of the loop and a packet of answers each.
ALONE_SECONDS = 0.001
# What a connection took so long ago counts a third of what it takes now: some hundred slices.
MEMORY_SECONDS = 0.1
# What was taken fades in steps of so long: each request of each connection has several steps.
_FADING_SECONDS = MEMORY_SECONDS / 20
# So much of each turn is kept for those who took little lately: however full the turn is, such a one does not wait for
# another. Two slices, for one is often taken by somebody of a crowd who was kept from asking for a while.
RESERVED_SECONDS = 2 * TURN_SECONDS
# Little is so much less than the geometric mean of those in line; where nobody is, than who was let in last, or a
# twentieth of the loop. Of eight who share the loop each takes a tenth of it, and half of that who asks for one thing
# after the other. Not less than the first in line: that is often one of the crowd who was kept from asking.
LITTLE_SHARE = 0.7
LITTLE_SECONDS = MEMORY_SECONDS / 20
_LITTLE_ORDER = math.log(LITTLE_SHARE)
# Taken for who took nothing.
_LEAST_SECONDS = 1e-6


class _Waiting:
    """In line. `task` is None once it gave up."""

    __slots__ = ("expected", "task")

    def __init__(self, task: trio.lowlevel.Task, expected: float) -> None:
        self.task: trio.lowlevel.Task | None = task
        self.expected = expected


class TurnQueue:
    """Of the connections that share a loop, whose turns `loop` counts: each has a `Turn`."""

    __slots__ = (
        *("_ahead", "_granted", "_in_line", "_loop", "_numbers", "_orders", "_reserved"),
        *("_taken", "_waiting"),
        *("clock", "last", "number", "shared_at", "slice_end"),
    )

    def __init__(self, loop: LoopTurns, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.slice_end = slice_end()
        self._loop = loop
        # The turn that `_taken` is of.
        self.number = loop.number
        # Seconds of that turn of the loop, with those that are expected of who was let in and has not run.
        self._taken = 0.0
        # The same of the next one.
        self._granted = 0.0
        # What was expected of those who began although the turn was full.
        self._reserved = 0.0
        # A heap; with those who gave up, who do not count.
        self._waiting: list[tuple[float, int, _Waiting]] = []
        self._in_line = 0
        # The sum of their orders.
        self._orders = 0.0
        # The order of who left the line last, or would have been the only one in it.
        self._ahead = -math.inf
        self._numbers = itertools.count()
        # Who had the last step, and when that was another one than before.
        self.last: Turn | None = None
        self.shared_at = -math.inf

    def _begin_turn(self) -> None:
        """The loop has gone on since this was last called."""
        number = self._loop.number
        self._taken = self._granted if number == self.number + 1 else 0.0
        self._granted = 0.0
        self._reserved = 0.0
        self.number = number

    def lets_begin(self, turn: Turn, expected: float) -> bool:
        """Lets one more begin in this turn if there is room, of whom so many seconds are expected."""
        if self.number != self._loop.number:
            self._begin_turn()
        if self._taken < TURN_SECONDS and not self._in_line:
            return True
        if self._reserved >= RESERVED_SECONDS or not self._took_little(turn):
            return False
        self._reserved += expected
        return True

    def _took_little(self, turn: Turn) -> bool:
        """Never who has had a slice in this turn: it goes on with what it asked for at once."""
        if turn.ended_in == self.number:
            return False
        if not self._in_line:
            return (
                turn.took_lately(self.clock()) < LITTLE_SECONDS
                or turn.order() < self._ahead + _LITTLE_ORDER
            )
        return turn.order() < self._orders / self._in_line + _LITTLE_ORDER

    async def enter(self, order: float, expected: float) -> None:
        """Waits in line for another turn of the loop: those with the least `order` go first. It is then expected to
        take so many seconds, until `took` says how many it took.
        """
        if self.number != self._loop.number:
            self._begin_turn()
        if not self._granted and not self._in_line:
            self._granted += expected
            self._ahead = order
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                self.took(0.0, expected)
                raise
            return
        waiting = _Waiting(trio.lowlevel.current_task(), expected)
        heapq.heappush(self._waiting, (order, next(self._numbers), waiting))
        self._in_line += 1
        self._orders += order

        def give_up(_: object) -> trio.lowlevel.Abort:
            waiting.task = None
            self._leave(order)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(give_up)

    def _leave(self, order: float) -> None:
        self._in_line -= 1
        self._orders = self._orders - order if self._in_line else 0.0

    def took(self, seconds: float, expected: float) -> None:
        """So much of this turn is taken, where so much was expected; lets in who may run in the next turn. Whoever
        entered says this in that turn, so nobody is forgotten.
        """
        if self.number != self._loop.number:
            self._begin_turn()
        self._taken += seconds - expected
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._granted < TURN_SECONDS:
            order, _, waiting = heapq.heappop(self._waiting)
            if waiting.task is not None:
                self._leave(order)
                self._ahead = order
                self._granted += waiting.expected
                trio.lowlevel.reschedule(waiting.task)


class Turn:
    """Of one connection: its slices, and what it took of the loop lately. Its steps never overlap."""

    __slots__ = ("_at", "_ends", "_entered", "_last", "_lately", "_queue", "ended_in", "loop_time")

    def __init__(self, queue: TurnQueue, loop_time: LoopTime) -> None:
        self.loop_time = loop_time
        self._queue = queue
        self._lately = 0.0
        self._at = 0.0
        self._ends = 0.0
        # What the queue expects of a slice that it let in, and what the last one took.
        self._entered = 0.0
        self._last = TURN_SECONDS
        # The turn of the loop that the last slice ended in.
        self.ended_in = -1

    async def begin(self, since: float | None = None, spent: float = 0.0) -> None:
        """Begins a slice; no checkpoint where there is room for it. `since`: it has kept the loop since then; `spent`
        are seconds before that, which count but do not shorten the slice.
        """
        queue = self._queue
        expected = min(self._last, TURN_SECONDS)
        if not queue.lets_begin(self, expected):
            if since is not None:
                now = queue.clock()
                self._count(now - since + spent, now)
                since, spent = None, 0.0
            await queue.enter(self.order(), expected)
            self._entered = expected
        now = queue.clock() if since is None else since
        self.loop_time.began = now - spent
        is_shared = now - queue.shared_at < MEMORY_SECONDS
        self._ends = now + (TURN_SECONDS if is_shared else ALONE_SECONDS)
        queue.slice_end.begin_slice()

    def is_over(self) -> bool:
        """Whether others are to have their turn, as a slice has ended, or none began."""
        return self._queue.clock() > self._ends

    def may_be_joined(self) -> bool:
        """Returns whether what begins when the slice ends is for all that have come, and it has time left."""
        return self._queue.slice_end.is_shared and not self.is_over()

    def end(self) -> None:
        """Ends a slice, if one runs."""
        began = self.loop_time.began
        if began is None:
            return
        self._queue.slice_end.end_slice()
        now = self._queue.clock()
        self.loop_time.began = None
        self._ends = 0.0
        self._last = now - began
        self._count(self._last, now)
        self.ended_in = self._queue.number

    def resume(self) -> None:
        """A step begins."""
        self.loop_time.began = self._queue.clock()

    def pause(self) -> float:
        """It has ended; answers how long it took."""
        began, now = self.loop_time.began, self._queue.clock()
        assert began is not None
        self.loop_time.began = None
        self._count(now - began, now)
        return now - began

    def _count(self, seconds: float, now: float) -> None:
        queue = self._queue
        self.loop_time.seconds += seconds
        if now - self._at > _FADING_SECONDS:
            self._lately *= math.exp((self._at - now) / MEMORY_SECONDS)
            self._at = now
        self._lately += seconds
        if queue.last is not self:
            if queue.last is not None:
                queue.shared_at = now
            queue.last = self
        entered, self._entered = self._entered, 0.0
        queue.took(seconds, entered)

    def took_lately(self, now: float) -> float:
        """Seconds of the loop; what is long ago hardly counts."""
        return self._lately * math.exp((self._at - now) / MEMORY_SECONDS)

    def order(self) -> float:
        """Greater for who took more lately, at whatever time it is asked: all fade alike."""
        return math.log(self._lately + _LEAST_SECONDS) + self._at / MEMORY_SECONDS
