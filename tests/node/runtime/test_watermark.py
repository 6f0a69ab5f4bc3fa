import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked as settled

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.watermark import Watermark


async def test_reached_wait_only_checkpoints():
    mark = Watermark(10)
    with trio.testing.assert_checkpoints():
        await mark.wait_reached(10)
    assert mark.reached(10)
    assert not mark.reached(11)


async def test_waiters_below_mark_are_woken():
    mark = Watermark()
    done = []

    async def wait(offset):
        await mark.wait_reached(offset)
        done.append(offset)

    async with trio.open_nursery() as nursery:
        for offset in (5, 3, 9, 3):
            nursery.start_soon(wait, offset)
        await settled()
        mark.advance(4)
        await settled()
        assert sorted(done) == [3, 3]
        mark.advance(4)
        mark.advance(9)
        await settled()
        assert sorted(done) == [3, 3, 5, 9]
    assert not mark._waits._heap


async def test_close_fails_waits_above_the_mark():
    mark = Watermark(2)

    async def wait():
        with pytest.raises(NotLeaderError):
            await mark.wait_reached(3)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settled()
        mark.close()
    with pytest.raises(NotLeaderError):
        await mark.wait_reached(3)
    await mark.wait_reached(2)


async def test_mark_reached_before_close_counts_as_reached():
    mark = Watermark()
    reached = []

    async def wait():
        await mark.wait_reached(1)
        reached.append(mark.offset)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settled()
        mark.advance(1)
        mark.close()
    assert reached == [1]


def test_mark_never_decreases_or_moves_after_close():
    mark = Watermark(5)
    with pytest.raises(AssertionError):
        mark.advance(4)
    mark.close()
    with pytest.raises(AssertionError):
        mark.advance(6)


async def test_timed_out_polls_leave_no_heap_entries(autojump_clock):
    mark = Watermark()
    for _ in range(1000):
        with trio.move_on_after(0.5):
            await mark.wait_reached(1)
    assert len(mark._waits._heap) <= 4


async def test_wait_returns_at_its_deadline(autojump_clock):
    mark, began = Watermark(), trio.current_time()
    for number in range(1, 1001):
        await mark.wait_reached(1, began + number)
        assert trio.current_time() == began + number
    assert not mark.reached(1)
    assert len(mark._waits._heap) <= 4


async def test_wait_that_ended_has_no_deadline(autojump_clock):
    mark = Watermark()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mark.wait_reached, 1, trio.current_time() + 5)
        await settled()
        mark.advance(1)
    await trio.sleep(10)
    mark.close()
    with pytest.raises(NotLeaderError):
        await mark.wait_reached(2, trio.current_time() + 5)


async def test_function_is_called_once_when_mark_is_reached():
    mark, called = Watermark(), []
    mark.when_reached(2, lambda: called.append(2))
    mark.when_reached(0, lambda: called.append(0))
    assert called == [0]
    mark.advance(1)
    assert called == [0]
    mark.advance(3)
    mark.advance(4)
    assert called == [0, 2]
    mark.when_reached(5, lambda: called.append("end"))
    mark.close()
    assert called == [0, 2, "end"]


async def test_function_is_called_at_its_deadline(autojump_clock):
    mark, called = Watermark(), []
    began = trio.current_time()
    mark.when_reached(2, lambda: called.append("late"), began + 5)
    stopped = mark.when_reached(2, lambda: called.append("stopped"), began + 5)
    stopped.stop()
    await trio.sleep(6)
    mark.advance(2)
    assert called == ["late"]


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from("wac")), max_size=40))
def test_watermark_matches_naive_version(steps):
    """Steps: w: a wait for the offset begins; a: the watermark advances by it; c: the oldest wait is cancelled."""

    async def main():
        mark = Watermark()
        waits: list[tuple[int, trio.CancelScope]] = []
        done = []

        async def wait(number, offset, scope):
            with scope:
                await mark.wait_reached(offset)
                done.append(number)

        expected = set()
        alive = {}
        async with trio.open_nursery() as nursery:
            for number, (value, kind) in enumerate(steps):
                if kind == "w":
                    scope = trio.CancelScope()
                    waits.append((number, scope))
                    alive[number] = value
                    nursery.start_soon(wait, number, value, scope)
                elif kind == "a":
                    mark.advance(mark.offset + value % 4)
                elif waits:
                    number, scope = waits.pop(0)
                    scope.cancel()
                    alive.pop(number, None)
                await settled()
                reached = {n for n, offset in alive.items() if offset <= mark.offset}
                expected |= reached
                for n in reached:
                    del alive[n]
                assert set(done) == expected
                assert 0 <= mark._waits.stopped <= len(mark._waits._heap)
                assert len(mark._waits._heap) - mark._waits.stopped == len(alive)
            nursery.cancel_scope.cancel()

    trio.run(main)


async def test_dead_waiters_are_counted_until_removed():
    mark = Watermark()
    async with trio.open_nursery() as nursery:
        for offset in (1, 2, 3):
            nursery.start_soon(mark.wait_reached, offset)
        await settled()
        mark.advance(1)
        await settled()
        assert (len(mark._waits._heap), mark._waits.stopped) == (2, 0)
        nursery.cancel_scope.cancel()
    assert (len(mark._waits._heap), mark._waits.stopped) == (2, 2)
    mark.advance(2)
    assert (len(mark._waits._heap), mark._waits.stopped) == (1, 1)
