"""The only interface to threads: blocking work (fsync, recovery, deletion, cold reads) runs through here.

A computation is not faster in a thread, because there is one interpreter lock, but a long computation lets the loop
take its turns there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import TypeVar, TypeVarTuple

import trio

from trimaran.wire.transport.scheduling.compute_thread import Shares

# Disks serve a few requests in parallel; more threads only queue in the kernel, each with its own stack and lock
# hand-over.
THREADS_MAX = 8
# One thread for computations: a second one would only slow down the first, and double the memory in use.
COMPUTING_MAX = 1
# The longest light computation: a few megabytes of records, the maximum of a request.
LIGHT_SECONDS = 0.02
HEAVY_SECONDS = 0.5

T = TypeVar("T")
U = TypeVar("U")
Ts = TypeVarTuple("Ts")

_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(
    "trimaran.node.runtime.threads"
)
_computing: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar(
    "trimaran.node.runtime.threads.computing"
)
_computing_shares: trio.lowlevel.RunVar[Shares] = trio.lowlevel.RunVar(
    "trimaran.node.runtime.threads.shares"
)


async def run_blocking(fn: Callable[[*Ts], T], *args: *Ts) -> T:
    """Runs `fn(*args)` in a thread and returns its result, or raises its exception.

    Cancellation waits for the thread: a write or fsync that was started has an outcome, which must be observed.
    """
    return await trio.to_thread.run_sync(fn, *args, limiter=_run_limiter(_limiter, THREADS_MAX))


async def run_computing(
    fn: Callable[[*Ts], T], *args: *Ts, whom: Hashable = None, seconds: float = LIGHT_SECONDS
) -> T:
    """Runs a long computation like `run_blocking`, one at a time; the connection with the least recent use is next
    (`Shares`).

    `whom` is the id of the connection that needs the result, if any; `seconds` is the expected time. Meanwhile the loop
    waits for the interpreter lock in each of its turns, for at most `sys.getswitchinterval`.
    """
    shares = _shares()
    await shares.enter(whom, seconds)
    began = time.perf_counter()
    try:
        return await trio.to_thread.run_sync(
            fn, *args, limiter=_run_limiter(_computing, COMPUTING_MAX)
        )
    finally:
        shares.leave(whom, time.perf_counter() - began)


def _shares() -> Shares:
    try:
        return _computing_shares.get()
    except LookupError:
        _computing_shares.set(Shares())
        return _computing_shares.get()


def _run_limiter(
    kept: trio.lowlevel.RunVar[trio.CapacityLimiter], threads_max: int
) -> trio.CapacityLimiter:
    try:
        return kept.get()
    except LookupError:
        limiter = trio.CapacityLimiter(threads_max)
        kept.set(limiter)
        return limiter
