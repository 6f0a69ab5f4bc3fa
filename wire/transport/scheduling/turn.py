"""The order in which requests begin: at once while the loop has little to do, else those of the lightest users first.

trio runs every task that is ready once in each turn of its loop. With a hundred connections that always have something
to do a turn would take a hundred slices, and a connection that asks for little would wait that long for each step of
its request. So between two turns only `TURN_SECONDS` of requests are begun; a connection that comes later waits in
line, and one that has taken little lately goes before those that took much, or at once. Everything that a connection
does on the loop counts; work that follows from its requests is held back as they are. Not implemented here: other tasks
of the loop.
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

# Requests are begun for this long between two turns of the loop; the slice of one connection is as long. A turn of the
# loop itself takes some 40 µs; and a request waits for some five turns.
TURN_SECONDS = 0.00025
# The slice of a connection beside which no other was served for `MEMORY_SECONDS`: a shorter one would help no other,
# and cost a turn of the loop and a packet of answers each.
ALONE_SECONDS = 0.001
# Use this long ago counts a third of present use: some hundred slices.
MEMORY_SECONDS = 0.1
# Use fades in steps of this length: each request of each connection has several steps.
_FADING_SECONDS = MEMORY_SECONDS / 20
# This much of each turn is kept for connections that took little lately: however full the turn is, one of them does not
# wait for another. It is two slices, as one is often taken by a busy connection that was kept from asking for a while.
RESERVED_SECONDS = 2 * TURN_SECONDS
# Use is little below this part of the geometric mean of those in line; if the line is empty, of the use of the
# connection that was let in last, or of a twentieth of the loop. If eight share the loop, each takes a tenth of it, and
# one that asks for one thing after the other takes half of that. The first in line is no measure: that is often a busy
# connection that was kept from asking.
LITTLE_SHARE = 0.7
LITTLE_SECONDS = MEMORY_SECONDS / 20
_LITTLE_ORDER = math.log(LITTLE_SHARE)
# Taken for who took nothing.
_LEAST_SECONDS = 1e-6


class _QueuedConnection:
    """In line. `task` is None once it gave up."""

    __slots__ = ("expected", "task")

    def __init__(self, task: trio.lowlevel.Task, expected: float) -> None:
        self.task: trio.lowlevel.Task | None = task
        self.expected = expected


class TurnQueue:
    """The queue of connections that share a loop, with turns that `loop` counts: each has a `Turn`."""

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
        # The seconds expected of connections that began although the turn was full.
        self._reserved = 0.0
        # A heap; it includes connections that gave up, which do not count.
        self._waiting: list[tuple[float, int, _QueuedConnection]] = []
        self._in_line = 0
        # The sum of their orders.
        self._orders = 0.0
        # The order of who left the line last, or would have been the only one in it.
        self._ahead = -math.inf
        self._numbers = itertools.count()
        # The connection that had the last step, and when that was another one than before.
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
        """Lets one more connection begin in this turn if there is room for the `expected` seconds."""
        if self.number != self._loop.number:
            self._begin_turn()
        if self._taken < TURN_SECONDS and not self._in_line:
            return True
        if self._reserved >= RESERVED_SECONDS or not self._took_little(turn):
            return False
        self._reserved += expected
        return True

    def _took_little(self, turn: Turn) -> bool:
        """Returns whether the connection took little; never after a slice in this turn: it goes on with its next
        requests.
        """
        if turn.ended_in == self.number:
            return False
        if not self._in_line:
            return (
                turn.took_lately(self.clock()) < LITTLE_SECONDS
                or turn.order() < self._ahead + _LITTLE_ORDER
            )
        return turn.order() < self._orders / self._in_line + _LITTLE_ORDER

    async def enter(self, order: float, expected: float) -> None:
        """Waits in line for another turn of the loop: those with the least `order` go first. The slice is then expected
        to take `expected` seconds, until `took` says how many it took.
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
        waiting = _QueuedConnection(trio.lowlevel.current_task(), expected)
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
        """Counts `seconds` of this turn for a slice that was expected to take `expected`, and lets in those that may
        run in the next turn. Each connection that entered calls this in that turn, so none is forgotten.
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
    """The turn of one connection: its slices, and its use of the loop lately. Its steps never overlap."""

    __slots__ = ("_at", "_ends", "_entered", "_last", "_lately", "_queue", "ended_in", "loop_time")

    def __init__(self, queue: TurnQueue, loop_time: LoopTime) -> None:
        self.loop_time = loop_time
        self._queue = queue
        self._lately = 0.0
        self._at = 0.0
        self._ends = 0.0
        # The seconds that the queue expects of a slice that it let in, and those that the last one took.
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
        """The seconds of the loop that the connection took lately; older ones hardly count."""
        return self._lately * math.exp((self._at - now) / MEMORY_SECONDS)

    def order(self) -> float:
        """Greater for a connection that took more lately, at whatever time it is read: all fade alike."""
        return math.log(self._lately + _LEAST_SECONDS) + self._at / MEMORY_SECONDS
