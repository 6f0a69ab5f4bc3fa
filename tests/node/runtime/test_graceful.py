"""Graceful shutdown: the running code is notified of the request to stop, and nothing in it is cancelled."""

import pytest
import trio
import trio.testing

from trimaran.node.runtime.graceful import run_gracefully


async def test_shutdown_is_announced_and_remaining_work_done(autojump_clock):
    done = []

    async def run(stop):
        await stop.wait()
        await trio.sleep(5)
        done.append(trio.current_time())

    with trio.move_on_after(1):
        await run_gracefully(run)
    assert done == [6]


async def test_failure_is_raised_at_once():
    async def run(_stop):
        raise KeyError("x")

    with pytest.RaisesGroup(KeyError):
        await run_gracefully(run)
