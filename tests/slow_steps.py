"""Fails the test in which a step of the loop computes for longer than it may."""

import gc
from contextlib import contextmanager

import trio

from node.runtime.slow_steps import SlowSteps

# CPU time: other processes on the machine do not count, waiting for disks does not either.
CPU_SECONDS_MAX = 0.05


@contextmanager
def no_slow_steps(cpu_seconds_max=CPU_SECONDS_MAX):
    """Around what runs on this loop; who held it is told with the place."""
    gc.freeze()  # a node holds nothing of ten thousand tests, which take the collector longer than a step may
    found = []
    instrument = SlowSteps(cpu_seconds_max, found.append)
    instrument.start()
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)
        instrument.stop()
        gc.unfreeze()
    slow = [str(step) for step in found if step.cpu_seconds > cpu_seconds_max]
    assert not slow, "\n".join(slow)
