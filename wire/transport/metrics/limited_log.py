"""Named lines of the log that a hostile peer can cause: a few of a kind in a while, with a count of those left out.

Not implemented here: what is logged once by our own doing; that goes to the logger directly.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import trio

from trimaran.wire.text.events import Event

# Seconds between two lines of one kind: enough to notice, too few to fill a disk.
_INTERVAL_SECONDS = 10.0


class LimitedLog:
    """Kinds are events and names of our own code, so their number is bounded."""

    def __init__(
        self,
        logger: logging.Logger,
        interval_seconds: float = _INTERVAL_SECONDS,
        *,
        lines_max: int = 1,
    ) -> None:
        """`lines_max` of a kind are written in an interval, which begins with its first line."""
        self._logger = logger
        self._interval_seconds = interval_seconds
        self._lines_max = lines_max
        # event and `of` -> (beginning of its interval, lines of it that were written, or were to be)
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def log(
        self,
        event: Event,
        *,
        of: str = "",
        exc_info: BaseException | None = None,
        **fields: object,
    ) -> None:
        """As `Event.log`; what in `fields` came from a peer must be escaped by the event's text (`%(x)a`). `of` tells
        kinds of one event apart.
        """
        kind, now = (event.name, of), trio.current_time()
        began, lines = self._kinds.get(kind, (-math.inf, 0))
        left_out = 0
        if now - began >= self._interval_seconds:
            left_out = max(0, lines - self._lines_max)
            began, lines = now, 0
        self._kinds[kind] = (began, lines + 1)
        if lines >= self._lines_max:
            return
        if left_out:
            more = " (and %(left_out)d more such since the last line)"
            event = replace(event, text=event.text + more)
            fields["left_out"] = left_out
        event.log(self._logger, exc_info=exc_info, **fields)
