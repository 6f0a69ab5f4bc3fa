"""The fast path by which work is passed to a thread."""

from __future__ import annotations

import threading
import time

import pytest
import trio
import trio.testing

from trimaran.node.runtime import threads
from trimaran.node.runtime.threads import run_blocking, run_computing
from trimaran.wire.transport.scheduling.compute_thread import Shares


class TellingShares(Shares):
    """Notes the connections that are admitted, and for how long."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[object] = []

    async def enter(self, whom: object, expected: float) -> None:
        self.told.append(("enters", whom, expected))
        await super().enter(whom, expected)

    def leave(self, whom: object, seconds: float) -> None:
        self.told.append(("leaves", whom, seconds))
        super().leave(whom, seconds)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, (None, 0.02)), ({"whom": 7}, (7, 0.02)), ({"whom": 7, "seconds": 0.5}, (7, 0.5))],
)
@pytest.mark.parametrize("fails", [False, True])
async def test_computation_is_charged_expected_then_actual_time(
    monkeypatch, options, expected, fails
) -> None:
    passed, shares = [1000.0], TellingShares()
    monkeypatch.setattr(time, "perf_counter", lambda: sum(passed))
    threads._computing_shares.set(shares)

    def compute(one: int, other: int) -> tuple[int, bool]:
        shares.told.append("computes")
        passed.append(0.25)
        return one // other, threading.current_thread() is threading.main_thread()

    if fails:
        with pytest.raises(ZeroDivisionError):
            await run_computing(compute, 8, 0, **options)
    else:
        assert await run_computing(compute, 8, 2, **options) == (4, False)
    whom, seconds = expected
    assert shares.told == [("enters", whom, seconds), "computes", ("leaves", whom, 0.25)]


async def test_eight_block_at_once_and_one_computes(monkeypatch) -> None:
    asked = []

    async def run_sync(fn: object, *given: object, **options: object) -> str:
        asked.append((fn, given, options))
        return "result"

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    for run, most in ((run_blocking, 8), (run_computing, 1)):
        asked.clear()
        for _ in range(2):
            assert await run(max, 1, 2) == "result"
        limiters = {id(options["limiter"]) for _, _, options in asked}
        assert len(limiters) == 1
        for fn, given, options in asked:
            assert (fn, given, [*options]) == (max, (1, 2), ["limiter"])
            assert options["limiter"].total_tokens == most
    assert threads._computing_shares.get() is threads._shares()


async def test_cancelled_blocking_call_still_has_outcome() -> None:
    goes_on, results = threading.Event(), []

    def work() -> int:
        assert goes_on.wait(10)
        return 7

    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            results.append(await run_blocking(work))

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        goes_on.set()
    assert results == [7]
