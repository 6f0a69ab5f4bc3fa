"""Has the kernel end this process with its parent, however the parent ends: `kill -9` runs no clean-up (prctl(2), Linux
only).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid: int) -> None:
    """SIGTERM comes when the thread of `parent_pid` that forked us has ended; for the child to call, between fork and
    exec too.

    Elsewhere than on Linux it does nothing. Other threads than a main one end before their process does: fork from
    that.
    """
    if _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before we asked
        os.kill(os.getpid(), signal.SIGTERM)


# Looked up here, not in the child: between fork and exec as little as possible should happen.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
