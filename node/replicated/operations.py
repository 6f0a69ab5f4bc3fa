"""One decision after the other, in the order in which they were asked for, and none so long that the loop waits for it.

A decision reads the state, writes records and changes the state by replaying them. Between its first step and its last
nobody else may decide: they would see half of it. Most are over when `submit` returns. One of thousands of records goes
on in `run`, so many steps in each turn of the loop, and what is asked for meanwhile waits behind it; votes, fetches and
reads of the image do not wait. When the epoch ends in the middle, nothing of the decision was appended, or all of it,
and who waits is told NOT_CONTROLLER. In Kafka the queue of `QuorumController`, whose one thread may take as long as it
wants.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Generic, NoReturn, TypeVar

import trio

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.long_lived import LongLived
from trimaran.node.runtime.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

T = TypeVar("T")

# Records decided on, encoded or replayed between two checkpoints: some 5 ms of work, 10 to 15 with an election each.
STEPS_PER_TURN = 250
# What the collector of garbage would walk, at the most: a record has five lists, but of a partition it is one step in
# five.
OBJECTS_PER_STEP = 3
# Decisions that wait; each connection has few under way.
WAITING_MAX = 10_000


class Operation(Generic[T]):
    """A decision that was asked for; `ended` once it was made, or refused."""

    __slots__ = ("_done", "_error", "_steps", "_value", "ended")

    def __init__(self, steps: Steps[T]) -> None:
        self.ended = False
        self._steps = steps
        self._done = trio.Event()
        self._error: Exception | None = None
        self._value: T | None = None

    def go_on(self) -> int:
        """As much as may be done in one turn; returns how much it was."""
        done = 0
        try:
            while done < STEPS_PER_TURN:
                done += next(self._steps)
        except StopIteration as end:
            self._value = end.value
            self._end()
        except Exception as error:  # noqa: BLE001 - it is for who asked
            self._error = error
            self._end()
        return done

    def fail(self, error: Exception) -> None:
        self._steps.close()
        self._error = error
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._done.set()

    def result(self) -> T:
        """Returns the decision; may be called once. Raises what the decision raised."""
        assert self.ended
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to this frame: kept here, it would keep the request until the collector looks
        return self._value  # type: ignore[return-value]  # T may be None

    async def wait(self) -> T:
        """Raises what the decision raised; NotLeaderError, the epoch ended first."""
        await self._done.wait()
        return self.result()


class OperationQueue:
    """Belongs to one epoch of the active controller; the first of `_queue` is under way."""

    def __init__(self) -> None:
        self._queue: deque[Operation[Any]] = deque()
        self._wakeup = AutoResetEvent()
        self._closed = False
        self._long_lived = LongLived()

    @property
    def busy(self) -> bool:
        """A decision is under way: one that is asked for now waits."""
        return bool(self._queue)

    def submit(self, steps: Steps[T]) -> Operation[T]:
        """Begins at once if nothing else is under way; what takes one turn has ended when this returns.

        Raises:
            NotLeaderError: the epoch has ended.
            KafkaError: REQUEST_TIMED_OUT, too many wait.
        """
        if self._closed:
            raise NotLeaderError
        if len(self._queue) >= WAITING_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many decisions wait for their turn")
        operation = Operation(steps)
        if not self.busy:
            self._go_on(operation)
        if not operation.ended:
            self._queue.append(operation)
            self._wakeup.set()
        return operation

    async def submit_and_wait(self, steps: Steps[T]) -> T:
        """The same, and what was decided. Raises what the decision raises, and as `submit`."""
        return await self.submit(steps).wait()

    async def run(self) -> NoReturn:
        """Goes on with what did not end at once."""
        while True:
            await self._wakeup.wait()
            while self._queue:
                await yield_to_loop()
                self._go_on(self._queue[0])
                if self._queue[0].ended:
                    self._queue.popleft()

    def _go_on(self, operation: Operation[Any]) -> None:
        """What is decided stays until it is applied, as records, or longer, as an image."""
        self._long_lived.add(OBJECTS_PER_STEP * operation.go_on())

    def close(self) -> None:
        """Nobody decides any more."""
        self._closed = True
        while self._queue:
            self._queue.popleft().fail(NotLeaderError())
