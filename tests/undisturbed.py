"""Lets a test measure a count of the whole process, such as its memory, without the other threads."""

import sys
import time
from contextlib import contextmanager

# Seconds; longer than any test. A thread that wants to run waits this long before it requests its turn.
SWITCH_INTERVAL = 1000.0


@contextmanager
def undisturbed():
    """Prevents other threads from running Python code, which would allocate memory, unless the block waits. One of
    these threads communicates with the test runner, and may receive a list of tests at any time.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    time.sleep(0)  # lets a thread run that waited already
    try:
        yield
    finally:
        sys.setswitchinterval(before)
