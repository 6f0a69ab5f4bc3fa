"""The order of computing: the next connection is the one with the least recent use, including its expected time."""

import math
import threading
from functools import partial

import pytest
import trio
import trio.testing

from trimaran.node.runtime.threads import run_computing
from trimaran.wire.transport.scheduling.compute_thread import Shares, run_apart

KNOWN = 10_000
FADING = 2.0


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Thread:
    """A thread for items whose duration the test sets."""

    def __init__(self):
        self.clock = Clock()
        self.shares = Shares(self.clock)
        self.began = []
        self.goes_on = trio.Event()

    async def compute(self, whom, seconds, expected=0.5):
        await self.shares.enter(whom, expected)
        self.began.append(whom)
        await self.goes_on.wait()
        self.clock.now += seconds
        self.shares.leave(whom, seconds)


async def begun(thread, *items):
    """Returns the order in which waiting items begin while the first one computes."""
    async with trio.open_nursery() as nursery:
        for item in items:
            nursery.start_soon(thread.compute, *item)
            await trio.testing.wait_all_tasks_blocked()
        assert thread.began == [items[0][0]], "one at a time"
        thread.goes_on.set()
    return thread.began


async def test_first_of_equals_goes_first():
    assert await begun(Thread(), ("a", 1), ("b", 1), ("c", 1)) == ["a", "b", "c"]


async def test_lighter_user_precedes_heavier_user():
    thread = Thread()
    for whom, seconds in (("much", 1.0), ("little", 0.1)):
        await thread.shares.enter(whom, 0)
        thread.shares.leave(whom, seconds)
    assert await begun(thread, ("x", 1), ("much", 1), ("little", 1), ("none", 1)) == [
        *("x", "none", "little", "much")
    ]


async def test_short_item_precedes_long_item():
    items = [("x", 1), ("long", 1), ("longer", 1, 0.6), ("short", 0.01, 0.02)]
    assert await begun(Thread(), *items) == ["x", "short", "long", "longer"]


async def test_repeated_short_items_starve_no_other():
    """An item of half a second waits for fewer than half a second of other connections' items."""
    thread = Thread()
    await thread.shares.enter("greedy", 0.02)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.compute, "patient", 0.5)
        await trio.testing.wait_all_tasks_blocked()
        thread.goes_on.set()
        items = 0
        while not thread.began:
            items += 1
            thread.clock.now += 0.02
            again = []
            nursery.start_soon(_enter, thread, again)
            await trio.testing.wait_all_tasks_blocked()
            thread.shares.leave("greedy", 0.02)
            await trio.testing.wait_all_tasks_blocked()
        thread.shares.leave("greedy", 0.02)
    assert 10 < items <= 30


async def _enter(thread, again):
    await thread.shares.enter("greedy", 0.02)
    again.append(1)


async def test_old_use_is_forgotten():
    thread = Thread()
    await thread.shares.enter("old", 0)
    thread.shares.leave("old", 1.0)
    thread.clock.now += 20 * FADING
    await thread.shares.enter("new", 0)
    thread.shares.leave("new", 0.01)
    assert await begun(thread, ("x", 1), ("new", 1), ("old", 1)) == ["x", "old", "new"]


async def test_cancelled_waiter_is_skipped():
    thread = Thread()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(thread.compute, "first", 1)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(0):
            await thread.shares.enter("gone", 0)
        nursery.start_soon(thread.compute, "last", 1)
        await trio.testing.wait_all_tasks_blocked()
        thread.goes_on.set()
    assert thread.began == ["first", "last"]


async def test_number_of_known_users_is_bounded():
    shares = Shares()
    for whom in range(KNOWN + 10):
        await shares.enter(whom, 0)
        shares.leave(whom, 0.1)
    assert len(shares._used) <= KNOWN


async def test_newest_half_is_kept_beyond_the_bound():
    """For each connection the thread remembers the time and duration of its last computation."""
    clock = Clock()
    shares = Shares(clock)
    for whom in range(KNOWN, 0, -1):
        clock.now += 1.0
        await shares.enter(whom, 0)
        shares.leave(whom, 0.25)
    assert len(shares._used) == KNOWN
    clock.now += 1.0
    await shares.enter(KNOWN, 0)
    shares.leave(KNOWN, 0.25)
    assert len(shares._used) == KNOWN
    clock.now += 1.0
    await shares.enter("new", 0)
    shares.leave("new", 0.5)
    assert set(shares._used) == {*range(1, KNOWN // 2), KNOWN, "new"}
    assert shares._used["new"] == (0.5, clock.now)


@pytest.mark.parametrize("later", [0.0, 0.5, FADING, 7.0])
async def test_use_is_summed_and_fades_within_two_seconds(later):
    clock = Clock()
    shares = Shares(clock)
    for seconds in (0.75, 0.25):
        await shares.enter("a", 0)
        shares.leave("a", seconds)
        clock.now += later
    faded = math.exp(-later / FADING)
    used, at = shares._used["a"]
    assert used == pytest.approx(0.75 * faded + 0.25)
    assert at == clock.now - later
    assert shares._lately("a", clock.now) == pytest.approx(used * faded)
    assert shares._lately("b", clock.now) == 0.0


async def test_work_without_connection_counts_for_none():
    shares = Shares(Clock())
    await shares.enter(None, 0)
    shares.leave(None, 3.0)
    assert shares._used == {}
    assert not shares._is_taken


async def test_single_item_computes_and_failure_admits_next():
    running, most = [], []

    def compute(fails):
        running.append(threading.get_ident())
        most.append(len(running))
        running.pop()
        if fails:
            raise ValueError("no sense")

    failures = []

    async def run(number):
        try:
            await run_computing(compute, number % 2, whom=number)
        except ValueError as error:
            failures.append(error)

    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(run, number)
    assert most == [1] * 10
    assert len(failures) == 5


async def test_large_message_waits_for_one_of_many():
    goes_on, done = threading.Event(), []

    def decode(name):
        assert goes_on.wait(10)
        done.append(name)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(partial(run_apart, decode, "many", whom=1))
            await trio.testing.wait_all_tasks_blocked()
        for name, whom in (("one", 2), ("another", None)):
            nursery.start_soon(partial(run_apart, decode, name, whom=whom))
            await trio.testing.wait_all_tasks_blocked()
        goes_on.set()
    assert done == ["many", "one", "another", *["many"] * 9]
