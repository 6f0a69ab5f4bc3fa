import pytest
import trio
from trio.testing import wait_all_tasks_blocked as settled

from trimaran.node.runtime.epoch import open_epoch
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.latest import Latest
from trimaran.node.runtime.watermark import Watermark


async def test_waiters_miss_intermediate_values_never_the_last():
    latest = Latest(0)
    seen = []

    async def follow():
        value = 0
        while value < 9:
            value = await latest.wait_not(value)
            seen.append(value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await settled()
        for value in (1, 2, 3):
            latest.set(value)
        await settled()
        latest.set(3)
        await settled()
        latest.set(9)
    assert seen == [3, 9]
    assert latest.value == 9


async def test_wait_for_returns_at_once_if_true():
    with trio.testing.assert_checkpoints():
        assert await Latest(4).wait_for(lambda value: value > 3) == 4


async def test_epochs_do_not_overlap():
    events = []

    async def work(epoch):
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
            events.append(f"end {epoch}")

    state = Latest(1)
    async with trio.open_nursery() as outer:

        async def lead():
            while True:
                epoch = state.value
                async with open_epoch() as nursery:
                    events.append(f"begin {epoch}")
                    nursery.start_soon(work, epoch)
                    await state.wait_not(epoch)

        outer.start_soon(lead)
        for epoch in (2, 3):
            await settled()
            state.set(epoch)
        await settled()
        outer.cancel_scope.cancel()
    assert events == ["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]


async def test_outside_waiters_wake_before_inner_tasks_end():
    mark = Watermark()
    order = []

    async def outside():
        with pytest.raises(NotLeaderError):
            await mark.wait_reached(1)
        order.append("told")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(outside)
        await settled()
        async with open_epoch(mark.close, lambda: order.append("closed")) as epoch:

            async def inside():
                try:
                    await trio.sleep_forever()
                finally:
                    order.append("ended")

            epoch.start_soon(inside)
            await settled()
    assert order[0] == "closed"
    assert sorted(order) == ["closed", "ended", "told"]


async def test_failing_task_ends_the_epoch():
    mark = Watermark()

    async def fail():
        raise KeyError("x")

    with pytest.RaisesGroup(KeyError):
        async with open_epoch(mark.close) as epoch:
            epoch.start_soon(fail)
            await trio.sleep_forever()
    assert mark.closed


async def test_cancelled_epoch_closes_too():
    mark = Watermark()
    with trio.move_on_after(0):
        async with open_epoch(mark.close):
            await trio.sleep_forever()
    assert mark.closed
