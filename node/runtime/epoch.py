"""A leadership epoch as a block: nothing that belongs to epoch N is alive when epoch N + 1 begins.

Serves the leadership of the quorum, of a partition and of a coordinator shard, a follower's fetching and the mirror's
session. The caller's loop chooses the next epoch (`Latest.wait_not`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_epoch(*closers: Callable[[], object]) -> AsyncIterator[trio.Nursery]:
    """Yields the nursery of the epoch's tasks; the body runs while the epoch lasts.

    On exit, however it comes: first every closer is called, in order (`watermark.close`, `deferred.close`: they tell
    waiters outside the epoch), then the epoch's tasks are cancelled, then the exit waits until they have unwound.
    An exception of a task ends the body and comes out, in an ExceptionGroup as from any nursery.

    Objects that other tasks keep must not refer to this nursery: they outlive the block.
    """
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        finally:
            nursery.cancel_scope.cancel()  # only marks them: no task runs before the closers have ended
            for close in closers:
                close()
