"""Decide, append, replay, respond: transcripts of whole operations, and a test for each guarantee."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from tests.node.replicated.counter import Counter
from trimaran.node.replicated import operations, state_machine
from trimaran.node.replicated.state_machine import Producer, Result
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.wire.errors import ErrorCode, KafkaError

TESTDATA = Path(__file__).parent / "testdata"
PRODUCER = Producer(7, 0)


class Story:
    """Runs the commands of a transcript; `name` names a response."""

    def __init__(self):
        self.counter = Counter(in_steps=True)
        self.responses = {}

    def run(self, command, args):
        try:
            getattr(self, command)(**args)
        except (KafkaError, ValueError) as error:
            return f"refused: {error}\n{self.state()}"
        return self.state()

    def state(self):
        counter = self.counter
        lines = [
            f"log {len(counter.log)}, committed {counter.committed.offset}, total {counter.total}"
        ]
        for name, pending in self.responses.items():
            lines.append(f"{name}: {self._shown(pending)}")
        for name in [name for name, pending in self.responses.items() if pending.ready()]:
            del self.responses[name]
        if counter.parted:
            lines.append("parted")
        return "\n".join(lines)

    def _shown(self, pending):
        if not pending.is_decided:
            return "in the queue"
        if not pending.ready():
            is_over = self.counter.committed.closed
            return "fails, its commit is unknown" if is_over else "waits for its commit"
        try:
            return f"answered {pending.response}"
        except KafkaError as error:
            return f"failed: {error}"

    def add(self, name, number=None):
        """Decides at once; without a number it only reads."""
        numbers = () if number is None else (int(number),)
        self.responses[name] = self.counter.add(*numbers)

    def transact(self, name, number):
        self.responses[name] = self.counter.add(int(number), producer=PRODUCER)

    def mark(self):
        self.counter.mark()

    def submit(self, name, number, steps):
        """Queues an operation in steps."""
        operation = self.counter.add_slowly(int(number), int(steps))
        self.responses[name] = self.counter.machine.operations.submit(operation)

    def turn(self):
        """Runs one turn of the loop for the queue."""
        queue = self.counter.machine.operations
        queue._run_turn(queue._queue[0])
        if queue._queue and queue._queue[0].pending.is_decided:
            queue._queue.popleft()

    def commit(self, offset):
        self.counter.committed.advance(int(offset))

    def fail(self, error):
        errors = {
            "leadership": NotLeaderError(),
            "room": KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE),
        }
        self.counter.failure = errors.get(error)

    def damage(self, name):
        self.responses[name] = self.counter.machine.respond(Result(["broken"], None))

    def close(self):
        self.counter.close()


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("*.txt")), ids=lambda path: path.stem)
def test_transcript_is_reproduced(path, monkeypatch):
    monkeypatch.setattr(operations, "STEPS_PER_TURN", 3)
    story = Story()
    check_transcript(path, lambda step: story.run(step.command, step.args))


def test_append_gets_the_whole_result():
    counter = Counter()
    results = [
        Result((1,), None),
        Result((1, 2), None, atomic=False),
        Result((3,), None, producer=PRODUCER, is_awaited=False),
    ]
    for result in results:
        counter.machine.respond(result)
    assert counter.appended == results


def test_result_without_records_appends_nothing():
    counter = Counter()
    assert counter.add().response == 0
    assert counter.write(Result((), "read")) == "read"
    assert counter.appended == []


def test_records_after_gap_keep_their_offsets():
    """The log may have records of its own, for example of a leader change."""
    counter = Counter(next_offset=100)
    counter.log.append("of the log itself")
    assert not counter.add(5).ready()
    assert (counter.total, counter.machine.progress.end_offset) == (5, 102)


def test_append_in_steps_writes_with_its_last_one():
    counter = Counter(in_steps=True)
    writing = counter.machine.write(counter.plus(1, 2))
    assert next(writing) == 2
    assert counter.log == []
    assert next(writing) == 2
    assert (counter.log, counter.total) == ([1, 2], 3)
    assert counter.machine.progress.end_offset == 0, "of what is not whole yet nothing is told"
    with pytest.raises(StopIteration) as end:
        next(writing)
    assert end.value.value == 3
    assert counter.machine.progress.end_offset == 2


def test_long_replay_is_cut_into_steps(monkeypatch):
    monkeypatch.setattr(state_machine, "RECORDS_PER_STEP", 2)
    counter = Counter()
    assert list(counter.machine.write(counter.plus(1, 2, 3, 4, 5))) == [2, 2, 1]
    assert counter.total == 15


def test_replay_steps_report_their_amount_of_work():
    counter = Counter()
    assert list(counter.machine.write(counter.plus(*[1] * 60))) == [25, 25, 10]


async def test_marker_that_cannot_be_replayed_ends_the_epoch():
    counter = Counter()
    pending = counter.add(1, producer=PRODUCER)
    counter._end_transaction = None
    with pytest.raises(TypeError):
        counter.mark()
    assert counter.parted == 1
    with pytest.raises(KafkaError) as refused:
        await pending.wait()
    assert refused.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("decide", [Counter.add, lambda counter: counter.write(counter.plus())])
def test_ended_epoch_makes_no_decisions(decide):
    counter = Counter()
    counter.close()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER: another node leads"):
        decide(counter)


@pytest.mark.parametrize(("steps", "turns"), [(248, 1), (249, 2), (498, 2), (499, 3)])
def test_turn_ends_after_250_steps(steps, turns):
    """The write is a step too, and each step counts three objects for the garbage collector."""
    counter, told = Counter(), []
    queue = counter.machine.operations
    queue._long_lived.add = told.append
    pending = queue.submit(counter.add_slowly(1, steps))
    for _ in range(turns - 1):
        assert not pending.is_decided
        queue._run_turn(queue._queue[0])
    assert (pending.is_decided, counter.total) == (True, 1)
    assert told == [750] * (turns - 1) + [3 * (steps + 1 - 250 * (turns - 1))]


def test_ten_thousand_operations_may_wait():
    counter = Counter()
    queue = counter.machine.operations
    queue.submit(counter.add_slowly(1, 250))
    for _ in range(9_999):
        queue.submit(iter(()))
    with pytest.raises(KafkaError, match="too many decisions wait") as refused:
        queue.submit(iter(()))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
