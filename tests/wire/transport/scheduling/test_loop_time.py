"""A connection is charged for its steps, not for its waits; and counting does not change how it is awaited."""

from __future__ import annotations

import gc
import weakref

import pytest
import trio

from trimaran.wire.transport.scheduling import loop_time
from trimaran.wire.transport.scheduling.loop_time import LoopTime, LoopTimed, Unscheduled


class Steps:
    """Timed steps, with a clock that only the awaitable advances."""

    def __init__(self) -> None:
        self.now = self._began = 0.0
        self.lengths: list[float] = []

    def resume(self) -> None:
        self._began = self.now

    def pause(self) -> None:
        self.lengths.append(self.now - self._began)


@pytest.fixture
def steps() -> Steps:
    return Steps()


async def test_steps_count_and_waits_do_not(steps: Steps) -> None:
    async def answer() -> str:
        steps.now += 1
        await trio.lowlevel.checkpoint()
        steps.now += 2
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
        steps.now += 4
        return "answer"

    async def others() -> None:
        steps.now += 100

    assert await LoopTimed(answer(), steps) == "answer"
    assert sum(steps.lengths) == 7


async def test_exception_is_raised_and_its_step_counted(steps: Steps) -> None:
    async def answer() -> None:
        await trio.lowlevel.checkpoint()
        steps.now += 3
        raise KeyError("why")

    with pytest.raises(KeyError, match="why"):
        await LoopTimed(answer(), steps)
    assert steps.lengths == [0, 3]


async def test_cancelled_task_cleans_up(steps: Steps) -> None:
    cleaned = []

    async def answer() -> None:
        try:
            await trio.sleep_forever()
        finally:
            steps.now += 5
            cleaned.append(True)

    with trio.CancelScope() as scope:
        scope.cancel()
        await LoopTimed(answer(), steps)
    assert (cleaned, scope.cancelled_caught, sum(steps.lengths)) == ([True], True, 5)


async def test_call_without_waiting_is_one_step(steps: Steps) -> None:
    async def answer() -> int:
        steps.now += 2
        return 1

    assert await LoopTimed(answer(), steps) == 1
    assert steps.lengths == [2]


def test_each_second_is_taken_once_with_current_step() -> None:
    time = LoopTime()
    time.seconds = 3.0
    assert time.take(10.0) == 3.0
    time.began = 10.0
    assert time.take(12.0) == 2.0
    assert time.take(13.0) == 1.0
    time.began, time.seconds = None, time.seconds + 4.0
    assert time.take(20.0) == 1.0


async def test_error_thrown_in_leaves_no_cycle(steps: Steps) -> None:
    """An error refers to the frames that it passes; a frame that referred to the error would keep its contents alive
    until a garbage collection, which never examines frozen objects.
    """

    class Request:
        pass

    async def answer(_request: Request) -> None:
        await trio.sleep_forever()

    request = Request()
    alive = weakref.ref(request)
    gc.disable()
    try:
        with trio.CancelScope() as scope:
            scope.cancel()
            await LoopTimed(answer(request), steps)
        del request
        await (
            trio.lowlevel.checkpoint()
        )  # trio's loop keeps the last outcome of a step until the next one
        assert scope.cancelled_caught
        assert alive() is None
    finally:
        gc.enable()


async def test_slice_without_a_connection_lasts_its_seconds(monkeypatch):
    times = [100.0]
    monkeypatch.setattr(loop_time, "perf_counter", lambda: times[-1])
    turn = Unscheduled(5)
    for begins in (100.0, 200.0):
        over = []
        for seconds in (0, 5, 5.5):
            times.append(begins + seconds)
            over.append(turn.is_over())
        assert over == [False, False, True]
        times.append(200.0)
        await turn.begin()
