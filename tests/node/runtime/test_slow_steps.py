"""The instrument sees who holds the loop, and where."""

import threading

import trio

from node.runtime.slow_steps import SlowSteps

BOUND = 0.02


def hold(seen):
    """Holds the loop until the step is certainly slow and was looked in on."""
    threading.Event().wait(BOUND * 10)
    seen.append("held")


def test_a_task_that_holds_the_loop_is_named_with_its_stack():
    seen, steps = [], []

    async def culprit():
        await trio.lowlevel.checkpoint()
        hold(seen)
        await trio.lowlevel.checkpoint()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(culprit)

    trio.run(main, instruments=[SlowSteps(BOUND, steps.append)])
    named = [step for step in steps if "culprit" in step.task]
    assert len(named) == 1
    (step,) = named
    assert step.seconds >= BOUND * 10
    assert step.cpu_seconds < BOUND * 10
    assert any("hold" in frame for frame in step.stack)
    assert "culprit" in str(step)
    assert "hold" in str(step)


def test_waiting_is_not_holding():
    steps = []

    async def main():
        await trio.to_thread.run_sync(hold, [])

    trio.run(main, instruments=[SlowSteps(BOUND, steps.append)])
    assert not [step for step in steps if "hold" in str(step.stack)]
