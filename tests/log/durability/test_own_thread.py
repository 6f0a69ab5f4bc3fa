"""A function in a thread of its own, and the callback on the loop at its end."""

import threading

import pytest
import trio
import trio.testing

from trimaran.log.durability.syncing import run_in_own_thread


async def test_function_runs_in_another_thread() -> None:
    assert await run_in_own_thread(threading.get_ident, int) != threading.get_ident()


async def test_error_of_function_is_raised() -> None:
    def fail() -> None:
        raise OSError("no disk")

    with pytest.raises(OSError, match="no disk"):
        await run_in_own_thread(fail, int)


async def test_callback_runs_before_the_caller_continues() -> None:
    steps, here = [], threading.get_ident()

    def then(ident: int) -> bool:
        steps.append(trio.lowlevel.current_task() is not caller)
        return ident != threading.get_ident() == here

    caller = trio.lowlevel.current_task()
    assert await run_in_own_thread(threading.get_ident, then)
    assert steps == [True]


async def test_error_of_callback_is_raised() -> None:
    def fail(_: int) -> None:
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        await run_in_own_thread(threading.get_ident, fail)


async def test_cancelling_waits_for_the_end() -> None:
    """A begun call has an outcome, which each waiter receives."""
    goes_on, ended = threading.Event(), threading.Event()

    def work() -> int:
        assert goes_on.wait(10)
        ended.set()
        return 7

    results = []
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            results.append(await run_in_own_thread(work, int))

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        goes_on.set()
    assert ended.is_set()
    assert results == [7]
