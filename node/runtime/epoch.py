"""A leadership epoch as a block: no task of epoch N is alive when epoch N + 1 begins.

Used for the leadership of the quorum, of a partition and of a coordinator shard, for a follower's fetching, and for the
mirror's session. The caller's loop selects the next epoch (`Latest.wait_not`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_epoch(*closers: Callable[[], object]) -> AsyncIterator[trio.Nursery]:
    """Yields the nursery of the epoch's tasks; the body runs while the epoch lasts.

    However the block ends, the closers are called first, in order (`watermark.close`, `deferred.close`: they notify
    waiters outside the epoch). Then the epoch's tasks are cancelled, and the block waits until they have ended. An
    exception of a task ends the body and is raised in an ExceptionGroup, as from any nursery.

    Objects that other tasks keep must not refer to this nursery: they outlive the block.
    """
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        finally:
            # Only marks the tasks: none runs before the closers have ended
            nursery.cancel_scope.cancel()
            for close in closers:
                close()
