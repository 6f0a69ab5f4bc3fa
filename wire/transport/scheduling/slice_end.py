"""The work that begins when a slice of requests ends, and their answers have left.

The requests of a slice begin one after another, and no other task runs in between (`turn.py`). Work that costs as much
for one request as for all, e.g. an fsync, is done for all that have come by then (`then_for_all`). Work that no answer
needs, e.g. the markers of a transaction, holds up none (`then`). No request waits for another turn of the loop.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


class SliceEnd:
    """That of the slice which runs, of one trio run; `slice_end` finds it."""

    __slots__ = ("_is_coming", "_waiting", "is_shared")

    def __init__(self) -> None:
        # Whether what begins then is for all requests that have come by then: one more gains by being of the slice.
        self.is_shared = False
        self._is_coming = False
        # A few for each write of the slice: bounded by its time.
        self._waiting: list[Callable[[], object]] = []

    def then(self, work: Callable[[], object]) -> None:
        """Does `work` when the slice ends that runs now; at once outside of slices. It must not raise."""
        if self._is_coming:
            self._waiting.append(work)
        else:
            work()

    def then_for_all(self, work: Callable[[], object]) -> None:
        """Does as `then`, for work that takes along all that has come by then."""
        self.is_shared = self._is_coming
        self.then(work)

    def begin_slice(self) -> None:
        """A slice runs from now on, until `end_slice` without a checkpoint."""
        self._is_coming = True

    def end_slice(self) -> None:
        """It has ended."""
        self._is_coming = self.is_shared = False
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                work()


_of_run: trio.lowlevel.RunVar[SliceEnd] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.scheduling.slice_end"
)


def slice_end() -> SliceEnd:
    """Returns the slice end of this run."""
    try:
        return _of_run.get()
    except LookupError:
        _of_run.set(SliceEnd())
        return _of_run.get()
