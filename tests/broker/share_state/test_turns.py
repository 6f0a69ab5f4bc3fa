"""Turns of decisions about a share partition: they begin one at a time and in order, and none is lost."""

from __future__ import annotations

import trio
import trio.testing

from tests.broker.share_state.driver import KEY
from trimaran.broker.share_state.turns import Turns

OTHER = KEY._replace(partition=KEY.partition + 1)


def begun(*turns):
    return [turn.has_begun for turn in turns]


def test_turns_begin_in_their_order():
    turns = Turns()
    first, second, third = (turns.take(KEY) for _ in range(3))
    assert begun(first, second, third) == [True, False, False]
    first.end()
    assert begun(second, third) == [True, False]
    second.end()
    assert begun(third) == [True]
    third.end()
    assert len(turns) == 0


def test_turns_of_other_partitions_are_independent():
    turns = Turns()
    mine, other = turns.take(KEY), turns.take(OTHER)
    assert begun(mine, other) == [True, True]
    assert len(turns) == 2
    mine.end()
    assert (begun(turns.take(KEY)), len(turns)) == ([True], 2)


def test_turn_that_ends_before_beginning_is_skipped():
    turns = Turns()
    first, second, third = (turns.take(KEY) for _ in range(3))
    second.end()
    assert begun(first, third) == [True, False]
    first.end()
    assert begun(third) == [True]


async def test_waiting_ends_when_the_turn_begins():
    turns, order = Turns(), []

    async def decide(name, turn):
        await turn.wait()
        order.append(name)
        await trio.testing.wait_all_tasks_blocked()
        assert order[-1] == name
        turn.end()

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(decide, name, turns.take(KEY))
    assert order == ["a", "b", "c"]
    assert len(turns) == 0
