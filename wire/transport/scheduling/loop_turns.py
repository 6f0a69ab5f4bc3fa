"""The turns of a trio loop: their number, and when the newest began. A trio instrument, one for each run.

All users of turns share it, because trio takes a microsecond per turn for each instrument's hook.
"""

from __future__ import annotations

from time import monotonic

import trio


class LoopTurns(trio.abc.Instrument):
    """The counter of turns. `number` counts them; `woken` is when the newest began, in seconds of `time.monotonic`."""

    __slots__ = ("number", "woken")

    def __init__(self) -> None:
        self.number = 0
        self.woken = monotonic()

    def after_io_wait(self, _timeout: float) -> None:
        """Counts a turn of the loop; called by trio."""
        self.number += 1
        self.woken = monotonic()


_of_run: trio.lowlevel.RunVar[LoopTurns] = trio.lowlevel.RunVar(
    "trimaran.wire.transport.scheduling.loop_turns"
)


def loop_turns() -> LoopTurns:
    """Returns the turns of this trio run, counted since the first call."""
    try:
        return _of_run.get()
    except LookupError:
        turns = LoopTurns()
        _of_run.set(turns)
        trio.lowlevel.add_instrument(turns)
        return turns
