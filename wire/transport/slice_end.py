"""What begins when a slice of requests ends: that which costs as much for one as for all, e.g. an fsync.

The requests of a slice begin one after another, and no other task runs in between (`wire.transport.turn`). So whoever
waits for its end takes along all that has come by then, and nobody waits for a turn of the loop more.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


class SliceEnd:
    """That of the slice which runs, of one trio run; `slice_end` finds it."""

    __slots__ = ("_is_coming", "_waiting")

    def __init__(self) -> None:
        self._is_coming = False
        # As many as a slice writes to logs that are not flushed: bounded by its time.
        self._waiting: list[Callable[[], object]] = []

    @property
    def is_awaited(self) -> bool:
        """Whether something begins then."""
        return bool(self._waiting)

    def then(self, work: Callable[[], object]) -> None:
        """Does `work` when the slice ends that runs now; at once outside of slices. It must not raise."""
        if self._is_coming:
            self._waiting.append(work)
        else:
            work()

    def begin_slice(self) -> None:
        """A slice runs from now on, until `end_slice` without a checkpoint."""
        self._is_coming = True

    def end_slice(self) -> None:
        """It has ended."""
        self._is_coming = False
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                work()


_of_run: trio.lowlevel.RunVar[SliceEnd] = trio.lowlevel.RunVar("wire.transport.slice_end")


def slice_end() -> SliceEnd:
    """That of this run."""
    try:
        return _of_run.get()
    except LookupError:
        _of_run.set(SliceEnd())
        return _of_run.get()
