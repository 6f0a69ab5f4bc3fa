"""Making some logs durable: by the kernel itself where that is all there is to do, else by a thread.

By a thread one flush takes 0.2 ms longer than its fdatasync, which is 0.25 ms on a good disk: the thread is woken, has
to get the interpreter lock, and the loop is woken in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import trio
from outcome import Outcome, capture

from trimaran.node.runtime.kernel_syncs import of_this_run
from trimaran.node.runtime.threads import run_in_own_thread

T = TypeVar("T")

# The kernel would sync each by a thread of its own, all at once; one of ours does them one after another, and where
# there are many what it costs to wake it is little.
FILES_MAX = 8


class Flush(Protocol):
    """What must be synced, fixed on the loop: `trimaran.log.partitions.flush.Flush`."""

    def run(self) -> object:
        """Syncs; blocks, runs in a thread, raises OSError."""

    def descriptors(self) -> Sequence[int] | None:
        """Of the files of which an fdatasync each is all there is to do, if the kernel may do it by itself."""

    def synced(self, error: OSError | None) -> object:
        """Instead of `run`, on the loop: the kernel has done so, or failed to. Raises `error`."""


async def carry_out(flushes: Sequence[Flush], then: Callable[[], T]) -> T:
    """Syncs what all of them ask for, and returns what `then` does, called on the loop a turn before.

    Cancelling waits for the end. Raises OSError.
    """
    task = trio.lowlevel.current_task()
    if begin(flushes, then, partial(trio.lowlevel.reschedule, task)):
        result: T = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        return result
    return await run_in_own_thread(partial(_run_all, flushes), lambda _: then())


def begin(
    flushes: Sequence[Flush], then: Callable[[], T], ended: Callable[[Outcome[T]], object]
) -> bool:
    """Has the kernel carry them out; False if it does not, and nothing was done.

    `ended` is called on the loop with what became of it, `then` before it. It must not raise.
    """
    descriptors = _descriptors(flushes)
    syncs = of_this_run() if descriptors else None
    if syncs is None:
        return False

    def finish(error: OSError | None) -> T:
        for flush in flushes:
            flush.synced(error)
        return then()

    return syncs.begin(descriptors, lambda error: ended(capture(finish, error)))


def _descriptors(flushes: Sequence[Flush]) -> list[int]:
    """Of what the kernel may do, all or nothing."""
    found: list[int] = []
    for flush in flushes:
        descriptors = flush.descriptors()
        if descriptors is None or len(found) + len(descriptors) > FILES_MAX:
            return []
        found += descriptors
    return found


def _run_all(flushes: Sequence[Flush]) -> None:
    for flush in flushes:
        flush.run()
