"""The kernel's own fdatasync (`node/runtime/linux_aio.py`) on the loop: no thread is woken, none takes the interpreter
lock back.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from trimaran.node import events
from trimaran.node.runtime.linux_aio import Fdatasyncs

log = logging.getLogger(__name__)

# Contexts that a run has done with: the next one of this process has them.
_spare: list[Fdatasyncs] = []


@dataclass(slots=True)
class _Batch:
    left: int
    ended: Callable[[OSError | None], object]
    error: OSError | None = None


class KernelSyncs:
    """Those of one trio run; `of_this_run` finds them."""

    def __init__(self, fdatasyncs: Fdatasyncs) -> None:
        self._fdatasyncs = fdatasyncs
        self._batches: dict[int, _Batch] = {}

    def begin(self, descriptors: Sequence[int], ended: Callable[[OSError | None], object]) -> bool:
        """Has the kernel sync these files, at least one; `ended` is called on the loop with the first error. It must
        not raise, and what it needs must outlive the wait.

        False if the kernel takes none of them: they are still to be synced.
        """
        tag, taken = self._fdatasyncs.submit(descriptors)
        if not taken:
            return False
        batch = self._batches[tag] = _Batch(taken, ended)
        if taken < len(descriptors):
            # Whoever synced them all again would not hear of an error that those have which were taken.
            batch.error = OSError(errno.EIO, "the kernel took some of the files only")
        return True

    async def run(self) -> None:
        """Tells who waits, for as long as the run lasts."""
        while True:
            await trio.lowlevel.wait_readable(self._fdatasyncs.eventfd)
            for tag, number in self._fdatasyncs.completed():
                self._completed(tag, number)

    def _completed(self, tag: int, number: int) -> None:
        batch = self._batches[tag]
        batch.left -= 1
        if number and batch.error is None:
            batch.error = OSError(number, os.strerror(number))
        if batch.left == 0:
            del self._batches[tag]
            batch.ended(batch.error)


_of_run: trio.lowlevel.RunVar[KernelSyncs | None] = trio.lowlevel.RunVar(
    "trimaran.node.runtime.kernel_syncs"
)


def of_this_run() -> KernelSyncs | None:
    """None where the kernel does not know how, or has no room: then threads must do it."""
    try:
        return _of_run.get()
    except LookupError:
        pass
    try:
        fdatasyncs = _spare.pop() if _spare else Fdatasyncs()
    except OSError as error:
        events.FSYNC_BY_THREADS.log(log, error=error)
        _of_run.set(None)
        return None
    return use(fdatasyncs, _spare.append)


def use(fdatasyncs: Fdatasyncs, keep: Callable[[Fdatasyncs], object] | None = None) -> KernelSyncs:
    """Has this run use these, and `keep` them at its end."""
    syncs = KernelSyncs(fdatasyncs)
    _of_run.set(syncs)

    async def run() -> None:
        try:
            await syncs.run()
        finally:
            if keep is not None:
                keep(fdatasyncs)

    trio.lowlevel.spawn_system_task(run)
    return syncs
