"""A request's own steps are counted, what it waits for is not; and it is awaited as if nobody counted."""

from __future__ import annotations

import pytest
import trio

from tests.broker.calls import call
from wire.messages.heartbeat import HeartbeatRequest
from wire.transport import loop_time
from wire.transport.calls import Call
from wire.transport.loop_time import LoopTimed


class Clock:
    """Stands still but for what the awaited says that it took."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop_time, "time", clock)
    return clock


@pytest.fixture
def measured() -> Call:
    made = call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    made.loop_seconds = 0.0
    return made


async def test_steps_count_and_waits_do_not(clock: Clock, measured: Call) -> None:
    async def answer() -> str:
        clock.now += 1
        await trio.lowlevel.checkpoint()
        clock.now += 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
        clock.now += 4
        return "answer"

    async def others() -> None:
        clock.now += 100

    assert await LoopTimed(answer(), measured) == "answer"
    assert measured.loop_seconds == 7


async def test_what_is_raised_comes_through_and_counts(clock: Clock, measured: Call) -> None:
    async def answer() -> None:
        await trio.lowlevel.checkpoint()
        clock.now += 3
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        await LoopTimed(answer(), measured)
    assert measured.loop_seconds == 3


async def test_who_is_cancelled_cleans_up(clock: Clock, measured: Call) -> None:
    cleaned = []

    async def answer() -> None:
        try:
            await trio.sleep_forever()
        finally:
            clock.now += 5
            cleaned.append(True)

    with trio.CancelScope() as scope:
        scope.cancel()
        await LoopTimed(answer(), measured)
    assert (cleaned, scope.cancelled_caught, measured.loop_seconds) == ([True], True, 5)


async def test_what_does_not_wait_is_one_step(clock: Clock, measured: Call) -> None:
    async def answer() -> int:
        clock.now += 2
        return 1

    assert await LoopTimed(answer(), measured) == 1
    assert measured.loop_seconds == 2
