"""Turns of the loop are counted from the first call of `loop_turns`."""

import trio

from trimaran.wire.transport.scheduling.loop_turns import LoopTurns, loop_turns


async def test_turns_are_counted_from_the_first_call():
    turns = loop_turns()
    assert turns is loop_turns()
    assert turns.number == 0
    before = turns.woken
    await trio.lowlevel.checkpoint()
    assert turns.number == 1
    assert turns.woken > before
    await trio.lowlevel.checkpoint()
    await trio.lowlevel.checkpoint()
    assert turns.number == 3


def test_each_turn_is_one_more_and_newer():
    turns = LoopTurns()
    assert turns.number == 0
    woken = turns.woken
    turns.after_io_wait(0.5)
    assert turns.number == 1
    assert turns.woken > woken
