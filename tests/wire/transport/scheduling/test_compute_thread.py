"""The thread for large messages: it runs one item at a time, and charges its seconds to the item's connection."""

import threading
import time

import pytest
import trio

from trimaran.wire.transport.scheduling import compute_thread as heavy
from trimaran.wire.transport.scheduling.compute_thread import Shares, run_apart


class TellingShares(Shares):
    """Notes which connections begin, and for how long."""

    def __init__(self):
        super().__init__()
        self.told = []

    async def enter(self, whom, expected):
        self.told.append(("enters", whom, expected))
        await super().enter(whom, expected)

    def leave(self, whom, seconds):
        self.told.append(("leaves", whom, seconds))
        super().leave(whom, seconds)


@pytest.fixture
async def shares():
    found = TellingShares()
    heavy._thread.set((trio.CapacityLimiter(1), found))
    return found


@pytest.fixture
def clock(monkeypatch):
    """Seconds of `time.perf_counter`, which advance only by `clock.append`."""
    passed = [1000.0]
    monkeypatch.setattr(time, "perf_counter", lambda: sum(passed))
    return passed


async def test_unknown_item_is_expected_to_take_twentieth_second(shares, clock):
    def compute(first, second):
        shares.told.append("computes")
        clock.append(0.25)
        return first + second, threading.current_thread() is threading.main_thread()

    assert await run_apart(compute, "a", "b", whom=7) == ("ab", False)
    assert shares.told == [("enters", 7, 0.05), "computes", ("leaves", 7, 0.25)]


async def test_failed_item_counts_and_raises_its_error(shares, clock):
    def fail():
        clock.append(0.5)
        raise ValueError("no sense")

    with pytest.raises(ValueError, match="no sense"):
        await run_apart(fail)
    assert shares.told == [("enters", None, 0.05), ("leaves", None, 0.5)]
    assert await run_apart(int) == 0


async def test_items_of_one_run_share_one_thread():
    await run_apart(int)
    first = heavy._thread.get()
    await run_apart(int)
    limiter, shares = first
    assert heavy._thread.get() is first
    assert (limiter.total_tokens, shares._is_taken) == (1, False)
