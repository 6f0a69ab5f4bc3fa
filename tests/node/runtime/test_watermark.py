import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked as settled

from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.watermark import Watermark, wait_any_reached


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
    assert not mark._heap


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


async def test_polls_that_time_out_leave_no_heap_behind(autojump_clock):
    mark = Watermark()
    for _ in range(1000):
        with trio.move_on_after(0.5):
            await mark.wait_reached(1)
    assert len(mark._heap) <= 4


async def test_any_of_several():
    marks = [Watermark() for _ in range(3)]
    reached = []

    async def wait(offsets):
        await wait_any_reached(list(zip(marks, offsets, strict=True)))
        reached.append([m.offset for m in marks])

    for i, mark in enumerate(marks):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, [m.offset + 1 for m in marks])
            await settled()
            assert len(reached) == i
            mark.advance(i + 1)
    assert reached == [[1, 0, 0], [1, 2, 0], [1, 2, 3]]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, [100] * 3)
        await settled()
        assert len(reached) == 3
        marks[1].close()
    await wait([100] * 3)
    assert len(reached) == 5, "a closed one ends the wait, before and after"


@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from("wac")), max_size=40))
def test_against_the_obvious_version(steps):
    """w: a wait for the offset begins; a: the mark advances by it; c: the oldest wait is cancelled."""

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
                assert 0 <= mark._dead <= len(mark._heap)
                assert len(mark._heap) - mark._dead == len(alive)
            nursery.cancel_scope.cancel()

    trio.run(main)


async def test_reached_mark_needs_no_wait():
    marks = [Watermark(10), Watermark()]
    with trio.fail_after(5), trio.testing.assert_checkpoints():
        await wait_any_reached([(marks[1], 1), (marks[0], 10)])
    assert [mark._heap for mark in marks] == [[], []]


async def test_dead_waiters_are_counted_until_removed():
    first, second = Watermark(), Watermark()
    async with trio.open_nursery() as nursery:
        for offset in (1, 2, 3):
            nursery.start_soon(wait_any_reached, [(first, offset), (second, offset)])
        await settled()
        assert (first._dead, second._dead) == (0, 0)
        first.advance(2)
        await settled()
        assert (len(first._heap), first._dead) == (1, 0)
        assert (len(second._heap), second._dead) == (3, 2)
        second.advance(1)
        assert (len(second._heap), second._dead) == (2, 1)
        nursery.cancel_scope.cancel()
    assert (first._dead, second._dead) == (1, 2)
