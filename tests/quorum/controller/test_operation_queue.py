"""One decision after the other: in order, none in the middle of another, none longer than a turn of the loop."""

from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from node.runtime.errors import NotLeaderError
from quorum.controller import operation_queue as module
from quorum.controller.operation_queue import Turns
from wire.errors import ErrorCode, KafkaError

STEP = 3


@pytest.fixture(autouse=True)
def _small_turns(monkeypatch):
    monkeypatch.setattr(module, "STEPS_PER_TURN", STEP)


@asynccontextmanager
async def running(turns):
    with trio.fail_after(10.0):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(turns.run)
            yield
            nursery.cancel_scope.cancel()


class Diary(trio.abc.Instrument):
    """What happened, in order: steps of decisions and, between turns, the loop's ("tick")."""

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
        """As an instrument of trio."""
        self.lines.append("tick")


async def test_what_takes_one_turn_has_ended_when_it_was_asked_for():
    turns, diary = Turns(), Diary()
    asked = turns.ask(diary.decide("a", STEP - 1))
    assert (asked.ended, asked.result()) == (True, "a")
    assert not turns.busy


async def test_a_long_one_lets_the_loop_have_its_turn():
    turns, diary = Turns(), Diary()
    trio.lowlevel.add_instrument(diary)
    async with running(turns):
        assert await turns.take(diary.decide("a", 4 * STEP)) == "a"
    trio.lowlevel.remove_instrument(diary)
    parts = "".join("|" if line == "tick" else "." for line in diary.lines).split("|")
    assert sum(map(len, parts)) == 4 * STEP
    assert max(map(len, parts)) == STEP


async def test_others_wait_for_their_turn_in_order():
    turns, diary = Turns(), Diary()
    asked = [turns.ask(diary.decide(name, steps)) for name, steps in (("a", 7), ("b", 1), ("c", 5))]
    assert [one.ended for one in asked] == [False] * 3
    async with running(turns):
        assert [await one.wait() for one in asked] == ["a", "b", "c"]
    assert diary.lines == [*(f"a{i}" for i in range(7)), "b0", *(f"c{i}" for i in range(5))]


async def test_a_step_says_how_much_it_was():
    turns = Turns()

    def decide():
        yield STEP  # a turn of its own
        return "made"

    asked = turns.ask(decide())
    assert not asked.ended
    async with running(turns):
        assert await asked.wait() == "made"


async def test_an_error_is_for_who_asked():
    turns, diary = Turns(), Diary()
    with pytest.raises(ValueError, match="broken"):
        turns.ask(diary.fail()).result()
    late, following = turns.ask(diary.fail(STEP)), turns.ask(diary.decide("b", 1))
    async with running(turns):
        assert await following.wait() == "b"
    with pytest.raises(ValueError, match="broken"):
        await late.wait()


async def test_the_end_of_the_epoch_ends_what_is_under_way_and_what_waits():
    turns, diary, undone = Turns(), Diary(), []

    def decide():
        try:
            yield from diary.decide("a", 9)
        finally:
            undone.append("a")

    under_way, waiting = turns.ask(decide()), turns.ask(diary.decide("b", 1))
    turns.close()
    assert undone == ["a"]
    assert diary.lines == ["a0", "a1", "a2"]
    for asked in (under_way, waiting):
        with pytest.raises(NotLeaderError):
            await asked.wait()
    with pytest.raises(NotLeaderError):
        turns.ask(diary.decide("c", 1))


async def test_those_who_wait_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "WAITING_MAX", 2)
    turns, diary = Turns(), Diary()
    for name in ("a", "b"):
        turns.ask(diary.decide(name, 9))
    with pytest.raises(KafkaError) as refused:
        turns.ask(diary.decide("c", 1))
    assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=8))
def test_it_is_as_if_each_had_been_made_at_once(asked):
    """Whenever they are asked for: so many steps each, after so many turns of the loop."""
    diary, plain = Diary(), Diary()

    async def main():
        turns = Turns()
        async with running(turns):
            made = []
            for number, (steps, ticks) in enumerate(asked):
                for _ in range(ticks):
                    await trio.lowlevel.checkpoint()
                made.append(turns.ask(diary.decide(f"{number}:", steps)))
            for number, one in enumerate(made):
                assert await one.wait() == f"{number}:"

    trio.run(main)
    for number, (steps, _) in enumerate(asked):
        list(plain.decide(f"{number}:", steps))
    assert diary.lines == plain.lines
