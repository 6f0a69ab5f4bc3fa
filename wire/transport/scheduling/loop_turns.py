"""The turns of a trio loop: how many there were, and when the newest began. A trio instrument, one for each run.

Each instrument costs time in each turn: trio takes a microsecond for a hook. So all users of turns share this one.
"""

from __future__ import annotations

from time import monotonic

import trio


class LoopTurns(trio.abc.Instrument):
    """`number` counts the turns; `woken` is when the newest began, in seconds of `time.monotonic`."""

    __slots__ = ("number", "woken")

    def __init__(self) -> None:
        self.number = 0
        self.woken = monotonic()

    def after_io_wait(self, _timeout: float) -> None:
        """trio: another turn of the loop."""
        self.number += 1
        self.woken = monotonic()


_of_run: trio.lowlevel.RunVar[LoopTurns] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.scheduling.loop_turns"
)


def loop_turns() -> LoopTurns:
    """Returns the turns of this run, counted since the first call in it."""
    try:
        return _of_run.get()
    except LookupError:
        turns = LoopTurns()
        _of_run.set(turns)
        trio.lowlevel.add_instrument(turns)
        return turns
