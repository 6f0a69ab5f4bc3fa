"""The one seam to threads: what blocks (fsync, recovery, deletion, cold reads) runs through here.

Left out: work that only computes; the interpreter lock makes a thread useless for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import trio

# Disks answer a few requests at once; more threads only queue in the kernel, each with its own stack and lock hand-over.
THREADS_MAX = 8

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(
    "quorum.runtime.threads"
)


async def run_blocking(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Runs `fn(*args)` in a thread and returns or raises what it does.

    Cancelling waits for the thread: a write or fsync that was begun has an outcome, and somebody must see it.
    """
    return await trio.to_thread.run_sync(fn, *args, limiter=_run_limiter())


def _run_limiter() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS_MAX)
        _limiter.set(limiter)
        return limiter
