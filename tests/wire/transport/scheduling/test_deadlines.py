"""Deadlines of waits: each callback runs once, in order, and not if it was stopped."""

import math
from types import SimpleNamespace

import trio

from trimaran.wire.transport.scheduling.deadlines import Deadlines, deadlines
from trimaran.wire.transport.scheduling.events import AutoResetEvent


async def test_deadlines_ring_in_order(autojump_clock):
    began, rung = trio.current_time(), []

    def note(name):
        rung.append((name, trio.current_time() - began))

    deadlines().add(began + 3, lambda: note("third"))
    deadlines().add(began + 1, lambda: note("first"))
    deadlines().add(began + 1, lambda: note("second"))
    stopped = deadlines().add(began + 2, lambda: note("stopped"))
    stopped.stop()
    stopped.stop()
    await trio.sleep(10)
    assert rung == [("first", 1), ("second", 1), ("third", 3)]
    deadlines().add(began, lambda: note("past"))
    await trio.sleep(1)
    assert rung[3:] == [("past", 10)]


async def test_stopped_deadlines_leave_heap(autojump_clock):
    found = deadlines()
    for _ in range(1000):
        found.add(trio.current_time() + 60, lambda: None).stop()
    assert len(found._heap) <= 4
    await trio.sleep(100)
    assert (found._heap, found.stopped) == ([], 0)


async def test_callback_may_stop_and_add_deadlines(autojump_clock):
    """An addition removes stopped deadlines from the heap while the heap is iterated."""
    found, now, rung = deadlines(), trio.current_time(), []
    stopped = [found.add(now + 60, lambda: None) for _ in range(10)]

    def ring():
        for deadline in stopped:
            deadline.stop()
        found.add(now + 1, lambda: rung.append(trio.current_time() - now))

    found.add(now + 1, ring)
    found.add(now + 1, lambda: rung.append("second"))
    await trio.sleep(100)
    assert rung == ["second", 1]
    assert (found._heap, found.stopped) == ([], 0)


async def test_event_reports_whether_its_deadline_came_first(autojump_clock):
    event, began = AutoResetEvent(), trio.current_time()
    assert not await event.wait(began + 1)
    assert trio.current_time() == began + 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(event.wait, began + 5)
        await trio.testing.wait_all_tasks_blocked()
        event.set()
    assert trio.current_time() == began + 1
    assert not event.is_set()
    event.set()
    assert await event.wait(began)


async def test_alarm_is_set_to_the_earliest_deadline_left(autojump_clock):
    found, now, times = Deadlines(), trio.current_time(), []
    found._alarm, found._on_earlier = SimpleNamespace(set=times.append), times.append
    for seconds in (5, 1, 9):
        found.add(now + seconds, lambda: None)
    await trio.sleep(1)
    found._ring()
    await trio.sleep(9)
    found._ring()
    assert times == [now + 5, now + 1, now + 5, math.inf]
