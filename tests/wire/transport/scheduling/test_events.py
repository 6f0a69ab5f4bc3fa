"""Repeating events: each set is seen once, and none is lost."""

import pytest
import trio
import trio.testing

from trimaran.wire.transport.scheduling.events import AutoResetEvent, Notifier


async def test_set_before_the_wait_is_seen_once(autojump_clock):
    event = AutoResetEvent()
    event.set()
    event.set()
    await event.wait()
    assert not event.is_set()
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await event.wait()


async def test_set_while_the_waiter_works_is_kept():
    event, seen = AutoResetEvent(), []

    async def work():
        while len(seen) < 2:
            await event.wait()
            seen.append("woken")
            if len(seen) == 1:
                event.set()

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            event.set()
    assert seen == ["woken", "woken"]


async def test_cancelled_wait_leaves_event_set():
    event = AutoResetEvent()
    event.set()
    with trio.CancelScope() as scope:
        scope.cancel()
        await event.wait()
    assert scope.cancelled_caught
    assert event.is_set()


async def test_all_current_waiters_are_notified_once(autojump_clock):
    notifier, woken = Notifier(), []
    notifier.notify_all()

    async def wait(name):
        await notifier.wait()
        woken.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, 1)
        nursery.start_soon(wait, 2)
        await trio.testing.wait_all_tasks_blocked()
        assert woken == [], "what happened before is not told again"
        notifier.notify_all()
    assert sorted(woken) == [1, 2]
    with pytest.raises(trio.TooSlowError), trio.fail_after(1):
        await notifier.wait()
