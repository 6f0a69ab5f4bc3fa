"""Counts for the whole process that include only this thread."""

import sys
import time
from contextlib import contextmanager

# Seconds; longer than any test. A thread that wants to run waits this long before it requests its turn.
SWITCH_INTERVAL = 1000.0


@contextmanager
def undisturbed():
    """No other thread runs Python, or allocates by it, unless the block waits. There are other threads: the one that
    talks to the test runner may receive a list of tests at any time.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    time.sleep(0)  # an earlier waiter has its turn now
    try:
        yield
    finally:
        sys.setswitchinterval(before)
