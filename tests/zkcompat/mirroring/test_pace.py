"""A round over the tree costs a share of a CPU, ends within the interval, and is not begun more than once a second."""

import time

import pytest
import trio

from zkcompat.mirroring.pace import PARTS_GUESSED, PAUSE_SECONDS, Pace

PART_CPU = 0.01


@pytest.fixture
def cpu(monkeypatch):
    """What the process has used; the test says when it works."""
    spent = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: spent[0])
    return spent


async def round_of(pace, cpu, parts):
    """How long it takes, the wait for the next one included."""
    began = trio.current_time()
    for _ in range(parts):
        cpu[0] += PART_CPU
        await pace.rest()
    await pace.next_round()
    return trio.current_time() - began


async def test_a_small_tree_is_looked_at_as_often_as_a_share_allows(autojump_clock, cpu):
    pace = Pace(0.02, 60.0)
    await round_of(pace, cpu, 10)
    for _ in range(2):
        assert await round_of(pace, cpu, 10) == pytest.approx(10 * PART_CPU * 49)


async def test_a_large_tree_within_the_interval(autojump_clock, cpu):
    pace = Pace(0.02, 60.0)
    await round_of(pace, cpu, 500)  # the pace does not know yet how much it is
    for _ in range(2):
        assert await round_of(pace, cpu, 500) == pytest.approx(60.0)


async def test_a_tiny_tree_once_a_second(autojump_clock, cpu):
    pace = Pace(0.5, 60.0)
    for _ in range(3):
        assert await round_of(pace, cpu, 1) == pytest.approx(1.0)


async def test_others_are_let_in_between_however_short_the_interval(autojump_clock, cpu):
    pace = Pace(0.02, 0.1)
    await round_of(pace, cpu, 1000)
    assert await round_of(pace, cpu, 1000) == pytest.approx(1000 * PAUSE_SECONDS)


async def test_without_a_share_only_the_interval_counts(autojump_clock, cpu):
    pace = Pace(0.0, 60.0)
    began = trio.current_time()
    await pace.rest()
    assert trio.current_time() - began == pytest.approx(60.0 / PARTS_GUESSED)
    await pace.next_round()
    assert await round_of(pace, cpu, 1) == pytest.approx(60.0)
