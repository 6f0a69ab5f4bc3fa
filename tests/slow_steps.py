"""Fails a test in which a step of the loop exceeds its limit.

The work of a step is measured in calls of Python and C functions, which do not depend on the machine or its load. A
call takes 0.1 to 0.3 µs. Long work within one C call is not detected: decompression, sorting.
"""

import math
import sys
import traceback
from contextlib import contextmanager

import trio

# 50 ms on a slow machine. An undivided step that calls seven functions for each of 20,000 elements is detected.
CALLS_MAX = 150_000
_FRAMES_MAX = 12


class Calls(trio.abc.Instrument):
    """Counts the calls of each step; `found` are the places where a step had made too many."""

    def __init__(self, calls_max):
        self.found = []
        self._max = calls_max
        self.count = 0

    def before_task_step(self, task):
        self.count = 0

    def profile(self, frame, event, _):
        """For `sys.setprofile`; a return is not counted again."""
        if event[-1] == "l":
            self.count += 1
            if self.count == self._max:
                stack = traceback.StackSummary.extract(traceback.walk_stack(frame))
                where = [
                    f"{entry.filename}:{entry.lineno} {entry.name}" for entry in stack[:_FRAMES_MAX]
                ]
                self.found.append("\n  ".join(where))


@contextmanager
def no_slow_steps(calls_max=CALLS_MAX):
    """Watches steps that run on this thread's loop; reports where a step has made too many calls."""
    calls = Calls(calls_max)
    trio.lowlevel.add_instrument(calls)
    sys.setprofile(calls.profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        trio.lowlevel.remove_instrument(calls)
    assert not calls.found, f"more than {calls_max} calls in a step\n" + "\n".join(calls.found)


def calls_of(work):
    """Returns how many calls `work`, a function without arguments, makes."""
    calls = Calls(math.inf)
    sys.setprofile(calls.profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls.count


def calls_of_each(work):
    """Returns the number of calls in each step of a generator, and its result."""
    calls, results = [], []

    def step():
        try:
            next(work)
        except StopIteration as stop:
            results.append(stop.value)

    while not results:
        calls.append(calls_of(step))
    return calls, results[0]
