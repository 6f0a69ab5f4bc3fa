"""The order in which requests begin: immediately while the loop is not busy, otherwise the requests of the lightest
users first.

trio runs every ready task once in each turn of its loop. With a hundred busy connections, a turn would take a hundred
slices, and a connection with few requests would wait that long for each step of a request. Therefore only
`TURN_SECONDS` of requests begin between two turns; a connection that arrives later waits in line, and a connection with
little recent use precedes those with much use, or begins immediately. All work of a connection on the loop counts; work
caused by its requests is delayed in the same way. Not implemented here: other tasks of the loop.
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

# Requests begin for this long between two turns of the loop; the slice of one connection has the same length. A turn of
# the loop itself takes about 40 µs, and a request waits for about five turns.
TURN_SECONDS = 0.00025
# The slice of a connection if no other was served for `MEMORY_SECONDS`: shorter slices would not help other
# connections, and each slice costs a turn of the loop and a packet of answers.
ALONE_SECONDS = 0.001
# The time in which use decays to about a third (1/e): 400 slices.
MEMORY_SECONDS = 0.1
# Use decays in steps of this length, because each request has several steps.
_FADING_SECONDS = MEMORY_SECONDS / 20
# This much of each turn is reserved for connections with little recent use: even if the turn is full, one of them is
# served. It has the length of two slices, because a busy connection that was blocked for a while often takes one of
# them.
RESERVED_SECONDS = 2 * TURN_SECONDS
# Use counts as little below this fraction of the geometric mean of the connections in line or, if the line is empty, of
# the use of the connection that was last admitted, or of a twentieth of the loop. If eight connections share the loop,
# each takes a tenth of it, and a connection that sends one request after another takes half of that. The first
# connection in line is not a good measure: it is often a busy connection that was blocked for a while.
LITTLE_SHARE = 0.7
LITTLE_SECONDS = MEMORY_SECONDS / 20
_LITTLE_ORDER = math.log(LITTLE_SHARE)
# The order of a connection without any use.
_LEAST_SECONDS = 1e-6


class _QueuedConnection:
    """A connection in line. `task` is None once the connection has given up."""

    __slots__ = ("expected", "task")

    def __init__(self, task: trio.lowlevel.Task, expected: float) -> None:
        self.task: trio.lowlevel.Task | None = task
        self.expected = expected


class TurnQueue:
    """The queue of connections that share a loop, with turns that `loop` counts. Each connection has a `Turn`."""

    __slots__ = (
        *("_ahead", "_granted", "_in_line", "_loop", "_numbers", "_orders", "_reserved"),
        *("_taken", "_waiting"),
        *("clock", "last", "number", "shared_at", "slice_end"),
    )

    def __init__(self, loop: LoopTurns, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.slice_end = slice_end()
        self._loop = loop
        # The turn to which `_taken` refers.
        self.number = loop.number
        # The seconds used in that turn, including those expected of connections that were admitted and have not run
        # yet.
        self._taken = 0.0
        # The seconds used in the next turn, counted in the same way.
        self._granted = 0.0
        # The seconds expected of connections that began although the turn was full.
        self._reserved = 0.0
        # A heap; it includes connections that have given up, which do not count.
        self._waiting: list[tuple[float, int, _QueuedConnection]] = []
        self._in_line = 0
        # The sum of the orders of the connections in line.
        self._orders = 0.0
        # The order of the connection that left the line last, or that would have been the only one in the line.
        self._ahead = -math.inf
        self._numbers = itertools.count()
        # The connection that ran the last step, and the time of the last change of this.
        self.last: Turn | None = None
        self.shared_at = -math.inf

    def _begin_turn(self) -> None:
        """Begins the accounting of a new turn of the loop."""
        number = self._loop.number
        self._taken = self._granted if number == self.number + 1 else 0.0
        self._granted = 0.0
        self._reserved = 0.0
        self.number = number

    def has_room(self) -> bool:
        """Returns whether this turn has time left, and no connection waits in line for it."""
        if self.number != self._loop.number:
            self._begin_turn()
        return self._taken < TURN_SECONDS and not self._in_line

    def lets_begin(self, turn: Turn, expected: float) -> bool:
        """Admits one more connection in this turn if there is room for the `expected` seconds; returns whether it
        did.
        """
        if self.number != self._loop.number:
            self._begin_turn()
        if self._taken < TURN_SECONDS and not self._in_line:
            return True
        if self._reserved >= RESERVED_SECONDS or not self._took_little(turn):
            return False
        self._reserved += expected
        return True

    def _took_little(self, turn: Turn) -> bool:
        """Returns whether the connection used little; False after a slice in this turn, because it continues with its
        next requests.
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
        """Waits in line for another turn of the loop; the connections with the least `order` go first. The slice is
        expected to take `expected` seconds, until `took` reports the actual number.
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
        """Counts `seconds` of this turn for a slice that was expected to take `expected`, and admits connections to the
        next turn. Each admitted connection calls this in its turn, so no connection is forgotten.
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
    """The turn of one connection: its slices, and its recent use of the loop. Its steps never overlap."""

    __slots__ = (
        *("_at", "_ends", "_entered", "_last", "_lately", "_queue"),
        *("ended_in", "loop_time", "slice_end"),
    )

    def __init__(self, queue: TurnQueue, loop_time: LoopTime) -> None:
        self.loop_time = loop_time
        self.slice_end = queue.slice_end
        self._queue = queue
        self._lately = 0.0
        self._at = 0.0
        self._ends = 0.0
        # The seconds that the queue expects of an admitted slice, and those that the last slice took.
        self._entered = 0.0
        self._last = TURN_SECONDS
        # The turn of the loop in which the last slice ended.
        self.ended_in = -1

    async def begin(self, since: float | None = None, spent: float = 0.0) -> None:
        """Begins a slice; no checkpoint if there is room for it. `since` is the time when the connection began to
        occupy the loop; `spent` are the seconds before that, which count but do not shorten the slice.
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

    def has_room(self) -> bool:
        """Returns whether a step of the connection may run now, in the turn of another task."""
        return self._queue.has_room()

    def is_over(self) -> bool:
        """Whether other connections must run next, because the slice has ended or was never begun."""
        return self._queue.clock() > self._ends

    def may_be_joined(self) -> bool:
        """Returns whether the deferred work of the slice serves all requests that have arrived, and the slice has time
        left.
        """
        return self._queue.slice_end.is_shared and not self.is_over()

    def end(self) -> None:
        """Ends the current slice, if any."""
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
        """Notes that a step begins."""
        self.loop_time.began = self._queue.clock()

    def pause(self) -> float:
        """Notes that the step has ended; returns its duration."""
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
        """Returns the connection's recent seconds on the loop; older ones hardly count."""
        return self._lately * math.exp((self._at - now) / MEMORY_SECONDS)

    def order(self) -> float:
        """Returns a number that is greater for a connection with more recent use; it may be read at any time, because
        all use decays at the same rate.
        """
        return math.log(self._lately + _LEAST_SECONDS) + self._at / MEMORY_SECONDS
