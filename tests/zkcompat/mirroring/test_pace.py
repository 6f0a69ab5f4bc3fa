"""A round over the tree costs a share of a CPU, ends within the interval, and begins at most once a second."""

import time

import pytest
import trio

from trimaran.zkcompat.mirroring.verifier import (
    PARTS_GUESSED,
    PAUSE_SECONDS,
    VerificationPace,
    cpu_seconds,
)

ZNODES = 500
PART_CPU = cpu_seconds(ZNODES)


async def round_of(pace, parts, znodes=ZNODES):
    """Returns the duration of a round, including the wait for the next one."""
    began = trio.current_time()
    for _ in range(parts):
        await pace.rest(znodes)
    await pace.next_round()
    return trio.current_time() - began


async def test_small_tree_is_verified_within_its_share(autojump_clock):
    pace = VerificationPace(0.02, 60.0)
    await round_of(pace, 10)
    for _ in range(2):
        assert await round_of(pace, 10) == pytest.approx(10 * PART_CPU * 50)


async def test_other_work_of_process_does_not_slow_rounds(autojump_clock, monkeypatch):
    """A slow machine does not slow the rounds down, either: otherwise an outsider's changes would remain for longer."""
    spent = [0.0]

    def busy():
        spent[0] += 1.0
        return spent[0]

    for clock in ("process_time", "thread_time"):
        monkeypatch.setattr(time, clock, busy)
    pace = VerificationPace(0.02, 60.0)
    await round_of(pace, 10)
    assert await round_of(pace, 10) == pytest.approx(10 * PART_CPU * 50)


async def test_slow_read_is_not_followed_by_longer_wait(autojump_clock):
    """On a crowded machine, or with a distant ZooKeeper, a round takes as long as before."""
    pace = VerificationPace(0.02, 60.0)
    await round_of(pace, 10)
    began = trio.current_time()
    for _ in range(10):
        await trio.sleep(PART_CPU * 20)
        await pace.rest(ZNODES)
    await pace.next_round()
    assert trio.current_time() - began == pytest.approx(10 * PART_CPU * 50)
    for _ in range(10):
        await trio.sleep(PART_CPU * 60)
        await pace.rest(ZNODES)
    assert trio.current_time() - began == pytest.approx(10 * (PART_CPU * 110 + PAUSE_SECONDS))


async def test_large_tree_is_verified_within_interval(autojump_clock):
    pace = VerificationPace(0.02, 60.0)
    await round_of(pace, 500)  # the size of the tree is still unknown
    for _ in range(2):
        assert await round_of(pace, 500) == pytest.approx(60.0)


async def test_tiny_tree_is_verified_once_a_second(autojump_clock):
    pace = VerificationPace(0.5, 60.0)
    for _ in range(3):
        assert await round_of(pace, 1) == pytest.approx(1.0)


async def test_pause_between_parts_holds_for_short_intervals(autojump_clock):
    pace = VerificationPace(0.02, 0.1)
    await round_of(pace, 1000)
    assert await round_of(pace, 1000) == pytest.approx(1000 * PAUSE_SECONDS)


async def test_only_interval_applies_without_share(autojump_clock):
    pace = VerificationPace(0.0, 60.0)
    began = trio.current_time()
    await pace.rest(ZNODES)
    assert trio.current_time() - began == pytest.approx(60.0 / PARTS_GUESSED)
    await pace.next_round()
    assert await round_of(pace, 1) == pytest.approx(60.0)


@pytest.mark.parametrize(
    ("znodes", "steps", "seconds"),
    [(0, 0, 0.001), (1000, 0, 0.017), (0, 1000, 0.013), (1000, 1000, 0.029)],
)
def test_cost_is_estimated_from_znodes_and_steps(znodes, steps, seconds):
    assert cpu_seconds(znodes, steps) == pytest.approx(seconds)


async def test_round_without_parts_is_followed_by_normal_one(autojump_clock):
    pace = VerificationPace(0.02, 60.0)
    await pace.next_round()
    assert await round_of(pace, 2) > 0
