"""The smallest replicated state machine: a sum, with a log in memory whose commits the test controls."""

from __future__ import annotations

from trimaran.node.replicated.pending import Progress
from trimaran.node.replicated.state_machine import ReplicatedStateMachine, Result
from trimaran.node.runtime.steps import at_once
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode


class Counter:
    """A sum of numbers. Records are numbers; one of them may be "broken"."""

    def __init__(self, next_offset=0, *, in_steps=False):
        self.total = 0
        self.pending = 0  # the sum in open transactions
        self.log = [None] * next_offset
        self.appended = []
        self.failure = None
        self.in_steps = in_steps
        self.parted = 0
        self.committed = Watermark(next_offset)
        progress = Progress(
            self.committed,
            next_offset,
            ended=ErrorCode.NOT_CONTROLLER,
            message="another node leads",
        )
        self.machine = ReplicatedStateMachine(self.append, self.replay, progress, self.part)

    def append(self, result):
        return self._append_in_steps(result) if self.in_steps else self._append(result)

    def _append_in_steps(self, result):
        yield len(result.records)
        return self._append(result)

    def _append(self, result):
        if self.failure is not None:
            raise self.failure
        self.log += result.records
        self.appended.append(result)
        return len(self.log) - 1

    def replay(self, offset, record, producer):
        assert self.log[offset] == record
        if record == "broken":
            raise ValueError(record)
        if producer is None:
            self.total += record
        else:
            self.pending += record

    def part(self):
        self.parted += 1
        self.close()

    def close(self):
        self.committed.close()
        self.machine.operations.close()

    def mark(self):
        """Ends the open transaction."""
        self.log.append("marker")
        self.machine.replay_marker(len(self.log), self._end_transaction)

    def _end_transaction(self):
        self.total += self.pending
        self.pending = 0

    # -- decisions

    def plus(self, *numbers, **options):
        """Decides on the current state, including uncommitted changes."""
        return Result(numbers, self.total + sum(numbers), **options)

    def add(self, *numbers, **options):
        return self.machine.respond(self.plus(*numbers, **options))

    def write(self, result):
        return at_once(self.machine.write(result))

    def add_slowly(self, number, steps):
        """Takes the given number of steps, then decides and writes."""
        for _ in range(steps):
            yield 1
        response = yield from self.machine.write(self.plus(number))
        return response
