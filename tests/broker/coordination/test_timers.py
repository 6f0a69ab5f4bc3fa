from __future__ import annotations

import random

from trimaran.broker.coordination.timers import Instant, Timers


def test_deadline_uses_seconds_of_monotonic_clock():
    assert Instant(10.0, 1_700_000_000_000).after_ms(500) == 10.5


def test_earliest_comes_first():
    timers = Timers()
    timers.set("b", 2.0)
    timers.set("a", 1.0)
    assert timers.earliest() == 1.0
    assert timers.pop_due(0.9) is None
    assert [timers.pop_due(2.0), timers.pop_due(2.0), timers.pop_due(2.0)] == ["a", "b", None]


def test_deadlines_move_both_ways():
    timers = Timers()
    timers.set("a", 5.0)
    timers.set("a", 9.0)
    assert timers.pop_due(8.0) is None
    timers.set("a", 1.0)
    assert timers.earliest() == 1.0
    timers.cancel("a")
    timers.cancel("a")
    assert timers.earliest() is None


def test_later_deadline_adds_no_heap_entry():
    timers = Timers()
    for _ in range(3):
        timers.set("a", 0.0)
    for i in range(10_000):
        timers.set("a", float(i))
    assert len(timers._heap) == 1


def test_stale_timers_are_removed_together_when_prevailing():
    """Rebuilding the heap for each one would cost as much as all timers together."""
    timers, count = Timers(), 100
    for key in range(count):
        timers.set(key, 1000.0)
    heap = timers._heap
    for earlier in range(1, count + 17):
        timers.set(0, 1000.0 - earlier)
        assert timers._heap is heap
    assert len(heap) == 2 * count + 16
    timers.set(0, 0.0)
    assert len(timers._heap) == count
    assert timers.pop_due(0.0) == 0


def test_timers_equal_a_dictionary_with_minimum():
    rng = random.Random(1)
    timers, twin = Timers(), {}
    for _ in range(20_000):
        key = rng.randrange(30)
        match rng.randrange(4):
            case 0 | 1:
                twin[key] = float(rng.randrange(100))
                timers.set(key, twin[key])
            case 2:
                twin.pop(key, None)
                timers.cancel(key)
            case _:
                now = float(rng.randrange(100))
                popped = timers.pop_due(now)
                if popped is None:
                    assert min(twin.values(), default=now + 1) > now
                else:
                    assert twin.pop(popped) <= min([now, *twin.values()])
        assert timers.earliest() == min(twin.values(), default=None)
        assert len(timers) == len(twin)
        assert (key in timers) is (key in twin)
        assert len(timers._heap) <= 2 * len(twin) + 17
