"""Operations in the order of their submission, split into steps so that no operation blocks the loop.

An operation decides on the state, writes records and changes the state by replaying them. Between its first step and
its last no other operation may decide, because it would see a partial change. Most operations have ended when `submit`
returns. An operation with thousands of records continues in `run`, some steps in each turn of the loop, while later
operations wait; votes, fetches and reads of the image do not wait. If the epoch ends during an operation, either all of
its records were appended or none. Kafka's equivalent is the queue of `QuorumController`; its single thread may take any
time.
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

# Records decided on, encoded or replayed between two checkpoints: about 5 ms of work, or 10 to 15 ms with an election
# for each.
STEPS_PER_TURN = 250
# The most objects per step that the garbage collector would traverse: a record has five lists, but only one step in
# five creates a partition's record.
OBJECTS_PER_STEP = 3
# The number of waiting operations; each connection has few in flight.
WAITING_MAX = 10_000


class _Operation(NamedTuple):
    steps: Steps[Any]
    pending: PendingResponse[Any]

    def run_turn(self) -> int:
        """Does the work of one turn; returns its amount in steps."""
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
    """The operations of one epoch; the first one in `_queue` is in progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._queue: deque[_Operation] = deque()
        self._wakeup = AutoResetEvent()
        self._long_lived = LongLived()
        self._closed = False

    @property
    def busy(self) -> bool:
        """Returns whether an operation is in progress; a new one must then wait."""
        return bool(self._queue)

    def submit(self, steps: Steps[T]) -> PendingResponse[T]:
        """Starts the operation immediately if no other is in progress; one that takes a single turn is decided when
        this returns.

        Raises:
            KafkaError: `Progress.ended` if the epoch has ended; REQUEST_TIMED_OUT if too many operations wait.
        """
        if self._closed:
            raise self._progress.ended_error()
        if len(self._queue) >= WAITING_MAX:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many decisions wait for their turn")
        pending: PendingResponse[T] = PendingResponse(self._progress)
        operation = _Operation(steps, pending)
        if not self._queue:
            self._run_turn(operation)
        if not pending.is_decided:
            self._queue.append(operation)
            self._wakeup.set()
        return pending

    async def run(self) -> NoReturn:
        """Continues operations that took more than one turn."""
        while True:
            await self._wakeup.wait()
            while self._queue:
                await yield_to_loop()
                self._run_turn(self._queue[0])
                if self._queue[0].pending.is_decided:
                    self._queue.popleft()

    def _run_turn(self, operation: _Operation) -> None:
        """Continues an operation, and counts the long-lived objects that it creates: records until they are applied,
        and parts of an image.
        """
        self._long_lived.add(OBJECTS_PER_STEP * operation.run_turn())

    def close(self) -> None:
        """Fails every operation, including those submitted later."""
        self._closed = True
        while self._queue:
            operation = self._queue.popleft()
            operation.steps.close()
            operation.pending.fail(self._progress.ended_error())
