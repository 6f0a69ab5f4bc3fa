"""Counts of the whole process that are this thread's alone."""

import sys
import time
from contextlib import contextmanager

# Seconds; longer than any test. A thread that wants to run waits this long before it requests its turn.
SWITCH_INTERVAL = 1000.0


@contextmanager
def undisturbed():
    """No other thread runs Python, or allocates by it, unless the block waits for something.

    There are some: what talks to the runner of the tests takes a list of further ones whenever it likes.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    time.sleep(0)  # an earlier waiter has its turn now
    try:
        yield
    finally:
        sys.setswitchinterval(before)
