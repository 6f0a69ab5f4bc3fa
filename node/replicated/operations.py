"""Operations in the order in which they were submitted, and none so long that the loop waits for it.

An operation decides on the state, writes records and changes the state by replaying them. Between its first step and
its last no other one may decide: it would see half of a change. Most have ended when `submit` returns. One of
thousands of records goes on in `run`, some steps in each turn of the loop, and operations that are submitted meanwhile
wait behind it; votes, fetches and reads of the image do not wait. If the epoch ends in the middle, nothing of the
operation was appended, or all of it. In Kafka the queue of `QuorumController`; its one thread may take any time.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple, NoReturn, TypeVar

from trimaran.node.replicated.pending import PendingResponse, Progress
from trimaran.node.runtime.long_lived import LongLived
from trimaran.node.runtime.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.events import AutoResetEvent, yield_to_loop

T = TypeVar("T")

# Records decided on, encoded or replayed between two checkpoints: some 5 ms of work, 10 to 15 with an election each.
STEPS_PER_TURN = 250
# Objects that the collector of garbage would walk, at the most: a record has five lists, but of a partition it is one
# step in five.
OBJECTS_PER_STEP = 3
# Operations that wait; each connection has few under way.
WAITING_MAX = 10_000


class _Operation(NamedTuple):
    steps: Steps[Any]
    pending: PendingResponse[Any]

    def go_on(self) -> int:
        """Does as much as one turn may; returns how much it was."""
        done = 0
        try:
            while done < STEPS_PER_TURN:
                done += next(self.steps)
        except StopIteration as end:
            self.pending.complete(end.value)
        except Exception as error:  # noqa: BLE001 - whoever waits for the response gets it
            self.pending.fail(error)
        return done


class OperationQueue:
    """Belongs to one epoch; the first of `_queue` is under way."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._queue: deque[_Operation] = deque()
        self._wakeup = AutoResetEvent()
        self._long_lived = LongLived()
        self._closed = False

    @property
    def busy(self) -> bool:
        """An operation is under way: one that is submitted now waits."""
        return bool(self._queue)

    def submit(self, steps: Steps[T]) -> PendingResponse[T]:
        """Begins at once if no other operation is under way; one that takes one turn is decided when this returns.

        Raises:
            KafkaError: `Progress.ended`, the epoch has ended; REQUEST_TIMED_OUT, too many operations wait.
        """
        if self._closed:
            raise self._progress.ended_error()
        if len(self._queue) >= WAITING_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many decisions wait for their turn")
        pending: PendingResponse[T] = PendingResponse(self._progress)
        operation = _Operation(steps, pending)
        if not self._queue:
            self._go_on(operation)
        if not pending.is_decided:
            self._queue.append(operation)
            self._wakeup.set()
        return pending

    async def run(self) -> NoReturn:
        """Goes on with operations that did not end at once."""
        while True:
            await self._wakeup.wait()
            while self._queue:
                await yield_to_loop()
                self._go_on(self._queue[0])
                if self._queue[0].pending.is_decided:
                    self._queue.popleft()

    def _go_on(self, operation: _Operation) -> None:
        """Counts the objects: records stay until they are applied, an image longer."""
        self._long_lived.add(OBJECTS_PER_STEP * operation.go_on())

    def close(self) -> None:
        """Ends every operation, and refuses all that are submitted from now on."""
        self._closed = True
        while self._queue:
            operation = self._queue.popleft()
            operation.steps.close()
            operation.pending.fail(self._progress.ended_error())
