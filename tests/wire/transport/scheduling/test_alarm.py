"""An alarm whose time is changed."""

from __future__ import annotations

from math import inf

import pytest
import trio
import trio.testing

from trimaran.wire.transport.scheduling.alarm import Alarm


class Bell:
    """An alarm under a stopped clock; times are seconds since it was made."""

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self._clock = clock
        self._began = trio.current_time()
        self.rings: list[float] = []
        self.alarm = Alarm(lambda: self.rings.append(trio.current_time() - self._began))

    def set(self, at: float) -> None:
        self.alarm.set(self._began + at)

    async def passes(self, seconds: float) -> None:
        self._clock.jump(seconds + 1e-6)  # trio's times are large: their sums are rounded
        await trio.testing.wait_all_tasks_blocked()


async def hung(nursery: trio.Nursery, clock: trio.testing.MockClock) -> Bell:
    bell = Bell(clock)
    nursery.start_soon(bell.alarm.run)
    await trio.testing.wait_all_tasks_blocked()
    return bell


async def test_alarm_rings_once(nursery, mock_clock) -> None:
    bell = await hung(nursery, mock_clock)
    bell.set(5)
    await bell.passes(4)
    assert bell.rings == []
    await bell.passes(1)
    await bell.passes(100)
    assert bell.rings == pytest.approx([5], abs=1e-3)


async def test_latest_time_replaces_earlier_ones(nursery, mock_clock) -> None:
    bell = await hung(nursery, mock_clock)
    for at in (9, 3, 7):
        bell.set(at)
    await bell.passes(6)
    assert bell.rings == []
    await bell.passes(1)
    assert bell.rings == pytest.approx([7], abs=1e-3)


async def test_past_alarm_rings_soon(nursery, mock_clock) -> None:
    bell = await hung(nursery, mock_clock)
    await bell.passes(10)
    bell.set(4)
    await bell.passes(0)
    assert bell.rings == pytest.approx([10], abs=1e-3)


async def test_infinite_deadline_is_valid(nursery, mock_clock) -> None:
    bell = await hung(nursery, mock_clock)
    bell.set(1)
    bell.set(inf)
    await bell.passes(100)
    assert bell.rings == []
    bell.set(101)
    await bell.passes(1)
    assert bell.rings == pytest.approx([101], abs=1e-3)
