import pytest
import trio
from trio.testing import wait_all_tasks_blocked as settled

from trimaran.node.replicated.state_machine import ReplicatedState, Result
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.steps import at_once
from trimaran.node.runtime.watermark import Watermark


class Counter:
    """The smallest state machine: a sum, and a log of what was appended."""

    def __init__(self, next_offset=0):
        self.total = 0
        self.log = [None] * next_offset
        self.atomic = []
        self.refuse = False
        self.committed = Watermark(next_offset)
        self.state = ReplicatedState(self.append, self.replay, self.committed, next_offset)

    def append(self, records, atomic):
        yield len(records)
        if self.refuse:
            raise NotLeaderError
        self.log += records
        self.atomic.append(atomic)
        return len(self.log) - 1

    def replay(self, offset, record):
        assert self.log[offset] == record
        if record == "broken":
            raise ValueError(record)
        self.total += record

    def add(self, *numbers):
        """Decides on the state as it is, uncommitted changes included."""
        return at_once(self.state.write(Result(numbers, self.total + sum(numbers))))


async def test_response_waits_for_commit_decision_does_not():
    counter = Counter(next_offset=100)
    first, second = counter.add(1, 2), counter.add(10)
    assert counter.total == 13
    assert (first.end_offset, second.end_offset) == (102, 103)
    answers = []

    async def wait(deferred):
        answers.append(await deferred.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, second)
        nursery.start_soon(wait, first)
        await settled()
        counter.committed.advance(101)
        await settled()
        assert answers == []
        assert not first.ready()
        counter.committed.advance(102)
        await settled()
        assert answers == [3]
        assert first.ready()
        counter.committed.advance(103)
    assert answers == [3, 13]


async def test_read_only_answer_waits_for_its_state():
    counter = Counter()
    assert await counter.add().wait() == 0
    counter.add(5)
    read = counter.add()
    assert not read.ready()
    counter.committed.advance(1)
    assert await read.wait() == 5


async def test_leadership_end_fails_pending_and_new_requests():
    counter = Counter()
    parked = counter.add(1)

    async def wait():
        with pytest.raises(NotLeaderError):
            await parked.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settled()
        counter.state.close()
    with pytest.raises(NotLeaderError):
        counter.add(2)
    assert counter.log == [1]


def test_an_append_that_fails_changes_nothing():
    counter = Counter()
    counter.add(1)
    counter.refuse = True
    with pytest.raises(NotLeaderError):
        counter.add(2)
    assert (counter.total, counter.state.end_offset) == (1, 1)


async def test_a_replay_that_fails_ends_the_epoch():
    counter = Counter()
    good = counter.add(1)
    with pytest.raises(ValueError, match="broken"):
        at_once(counter.state.write(Result(["broken"], None)))
    with pytest.raises(NotLeaderError):
        await good.wait()
    with pytest.raises(NotLeaderError):
        counter.add(1)


def test_atomic_reaches_the_log():
    counter = Counter()
    at_once(counter.state.write(Result([1], None)))
    at_once(counter.state.write(Result([1, 2], None, atomic=False)))
    assert counter.atomic == [True, False]
