"""Work that begins when a slice of requests ends and their answers have been sent.

The requests of a slice begin one after another, with no other task in between (`turn.py`). Work that costs as much for
one request as for many, e.g. an fsync, is done once for all requests that have arrived by then (`then_for_all`). Work
that no answer needs, e.g. the markers of a transaction, delays no answers (`then`). No request waits for another turn
of the loop.
"""

from __future__ import annotations

from collections.abc import Callable

import trio


class SliceEnd:
    """The end of the current slice, in one trio run; see `slice_end`."""

    __slots__ = ("_is_coming", "_waiting", "is_shared")

    def __init__(self) -> None:
        # Whether the deferred work serves all requests that have arrived by then: a further request benefits from
        # joining the slice.
        self.is_shared = False
        self._is_coming = False
        # A few functions for each write of the slice: bounded by its duration.
        self._waiting: list[Callable[[], object]] = []

    def then(self, work: Callable[[], object]) -> None:
        """Calls `work` when the current slice ends, or immediately outside of slices. It must not raise."""
        if self._is_coming:
            self._waiting.append(work)
        else:
            work()

    def then_for_all(self, work: Callable[[], object]) -> None:
        """Calls `work` as `then` does, for work that serves all requests that have arrived by then."""
        self.is_shared = self._is_coming
        self.then(work)

    def begin_slice(self) -> None:
        """Begins a slice; no checkpoint follows until `end_slice`."""
        self._is_coming = True

    def end_slice(self) -> None:
        """Ends the slice and does its deferred work."""
        self._is_coming = self.is_shared = False
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                work()


_of_run: trio.lowlevel.RunVar[SliceEnd] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.scheduling.slice_end"
)


def slice_end() -> SliceEnd:
    """Returns the slice end of this trio run."""
    try:
        return _of_run.get()
    except LookupError:
        _of_run.set(SliceEnd())
        return _of_run.get()
