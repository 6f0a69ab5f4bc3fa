"""Measurements of the loop are right: how long its turns took, and how much of the time it waited."""

import pytest
import trio

from trimaran.metrics import loop_times
from trimaran.metrics.loop_times import LoopTimes
from trimaran.wire.transport.scheduling import loop_turns
from trimaran.wire.transport.scheduling.loop_turns import LoopTurns


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    for module in (loop_times, loop_turns):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def passed(seconds):
        now[0] += seconds

    return passed


def live(loop, clock, turns, busy, idle):
    for _ in range(turns):
        clock(busy)
        loop.before_io_wait(0)
        clock(idle)
        loop._loop.after_io_wait(0)


def test_turns_are_counted_within_and_after_second(clock):
    loop = LoopTimes(LoopTurns())
    live(loop, clock, 3, busy=0.01, idle=0.02)
    assert loop.turns().count == 3
    live(loop, clock, 100, busy=0.01, idle=0.02)
    found = loop.turns()
    assert found.count == 103
    assert found.seconds == pytest.approx(1.03)
    assert found.quantiles((0.5,))[0] == pytest.approx(0.01, rel=0.125)


def test_share_of_idle_time_is_measured(clock):
    loop = LoopTimes(LoopTurns())
    live(loop, clock, 2000, busy=0.01, idle=0.03)
    assert loop.idle_share() == pytest.approx(0.75, abs=0.02)
    live(loop, clock, 12000, busy=0.01, idle=0.0)
    assert loop.idle_share() == pytest.approx(0.0, abs=0.02)


def test_quiet_seconds_keep_few_turns(clock):
    loop = LoopTimes(LoopTurns())
    live(loop, clock, 1000, busy=0.0001, idle=0.01)
    assert len(loop._turns) < 200


def test_wait_ended_by_query_counts_for_it(clock):
    loop = LoopTimes(LoopTurns())
    live(loop, clock, 1, busy=1.0, idle=0.0)
    loop.before_io_wait(0)
    clock(9.0)
    loop._loop.after_io_wait(0)
    share = loop.idle_share()
    assert share > 0.5
    loop.before_io_wait(0)
    assert loop.idle_share() == pytest.approx(share)  # the wait counts once


async def test_run_has_own_turns_and_times(autojump_clock):
    times, turns = LoopTimes(loop_turns.loop_turns()), loop_turns.loop_turns()
    with times.counting():
        before = turns.number
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert turns.number == before + 3
    assert times.turns().count == 3
    await trio.lowlevel.checkpoint()
    assert times.turns().count == 3
