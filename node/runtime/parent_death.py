"""Makes the kernel end this process with its parent, however the parent ends: `kill -9` runs no clean-up (prctl(2),
only on Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent_pid: int) -> None:
    """Requests SIGTERM for when the thread of `parent_pid` that forked us has ended; called by the child, possibly
    between fork and exec.

    Does nothing on systems other than Linux. A thread other than the main one may end before its process does, so the
    main thread must fork.
    """
    if _prctl is None:
        return
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent_pid:  # it ended before the request
        os.kill(os.getpid(), signal.SIGTERM)


# Looked up here, not in the child, because as little as possible should happen between fork and exec.
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
