"""Operations run one after another: in order, none inside another, none longer than a turn of the loop."""

from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from trimaran.node.replicated import operations as module
from trimaran.node.replicated.operations import OperationQueue
from trimaran.node.replicated.pending import Progress
from trimaran.node.runtime.watermark import Watermark
from trimaran.wire.errors import ErrorCode, KafkaError

STEP = 3


@pytest.fixture(autouse=True)
def _small_turns(monkeypatch):
    monkeypatch.setattr(module, "STEPS_PER_TURN", STEP)


def queue():
    return OperationQueue(Progress(Watermark(), 0, ended=ErrorCode.NOT_CONTROLLER))


@asynccontextmanager
async def running(operations):
    with trio.fail_after(10.0):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(operations.run)
            yield
            nursery.cancel_scope.cancel()


class Diary(trio.abc.Instrument):
    """The events in order: steps of operations and, between turns, the loop's ("tick")."""

    def __init__(self):
        self.lines = []

    def decide(self, name, steps):
        for step in range(steps):
            self.lines.append(f"{name}{step}")
            yield 1
        return name

    def fail(self, steps=0):
        yield steps
        raise ValueError("broken")

    def after_io_wait(self, timeout):
        """Notes a turn; trio calls it for an instrument."""
        self.lines.append("tick")


async def test_one_turn_operation_ends_when_submitted():
    operations, diary = queue(), Diary()
    operation = operations.submit(diary.decide("a", STEP - 1))
    assert (operation.is_decided, operation.response) == (True, "a")
    assert not operations.busy


async def test_long_operation_yields_to_the_loop():
    operations, diary = queue(), Diary()
    trio.lowlevel.add_instrument(diary)
    async with running(operations):
        assert await operations.submit(diary.decide("a", 4 * STEP)).decided() == "a"
    trio.lowlevel.remove_instrument(diary)
    parts = "".join("|" if line == "tick" else "." for line in diary.lines).split("|")
    assert sum(map(len, parts)) == 4 * STEP
    assert max(map(len, parts)) == STEP


async def test_operations_wait_in_order():
    operations, diary = queue(), Diary()
    operation = [
        operations.submit(diary.decide(name, steps))
        for name, steps in (("a", 7), ("b", 1), ("c", 5))
    ]
    assert [pending.is_decided for pending in operation] == [False] * 3
    async with running(operations):
        assert [await pending.wait() for pending in operation] == ["a", "b", "c"]
    assert diary.lines == [*(f"a{i}" for i in range(7)), "b0", *(f"c{i}" for i in range(5))]


async def test_step_reports_its_amount_of_work():
    operations = queue()

    def decide():
        yield STEP  # in a turn of its own
        return "made"

    operation = operations.submit(decide())
    assert not operation.is_decided
    async with running(operations):
        assert await operation.wait() == "made"


async def test_error_reaches_only_its_caller():
    operations, diary = queue(), Diary()
    with pytest.raises(ValueError, match="broken"):
        _ = operations.submit(diary.fail()).response
    late, following = operations.submit(diary.fail(STEP)), operations.submit(diary.decide("b", 1))
    async with running(operations):
        assert await following.wait() == "b"
    with pytest.raises(ValueError, match="broken"):
        await late.wait()


async def test_epoch_end_cancels_running_and_waiting_operations():
    operations, diary, undone = queue(), Diary(), []

    def decide():
        try:
            yield from diary.decide("a", 9)
        finally:
            undone.append("a")

    under_way, waiting = operations.submit(decide()), operations.submit(diary.decide("b", 1))
    operations.close()
    assert undone == ["a"]
    assert diary.lines == ["a0", "a1", "a2"]
    for operation in (under_way, waiting):
        with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
            await operation.wait()
    with pytest.raises(KafkaError, match="NOT_CONTROLLER"):
        operations.submit(diary.decide("c", 1))


async def test_waiting_operations_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    operations, diary = queue(), Diary()
    for name in ("a", "b"):
        operations.submit(diary.decide(name, 9))
    with pytest.raises(KafkaError) as refused:
        operations.submit(diary.decide("c", 1))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=8))
def test_interleaved_operations_equal_sequential_ones(operation):
    """Operations are submitted at any time: each with a given number of steps, after a given number of turns of the
    loop.
    """
    diary, plain = Diary(), Diary()

    async def main():
        operations = queue()
        async with running(operations):
            made = []
            for number, (steps, ticks) in enumerate(operation):
                for _ in range(ticks):
                    await trio.lowlevel.checkpoint()
                made.append(operations.submit(diary.decide(f"{number}:", steps)))
            for number, item in enumerate(made):
                assert await item.wait() == f"{number}:"

    trio.run(main)
    for number, (steps, _) in enumerate(operation):
        list(plain.decide(f"{number}:", steps))
    assert diary.lines == plain.lines
