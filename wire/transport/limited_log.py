"""Named lines of the log that a hostile peer can cause: one a kind in a while, with a count of those left out.

Left out: what is logged once by our own doing; that goes to the logger directly.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import trio

from wire.events import Event

# Seconds between two lines of one kind: enough to notice, too few to fill a disk.
_INTERVAL_SECONDS = 10.0


class LimitedLog:
    """Kinds are events and names of our own code, so their number is bounded."""

    def __init__(self, logger: logging.Logger, interval_seconds: float = _INTERVAL_SECONDS) -> None:
        self._logger = logger
        self._interval_seconds = interval_seconds
        # event and `of` -> (when the last line was written, how many were left out since)
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
        last, left_out = self._kinds.get(kind, (-math.inf, 0))
        if now - last < self._interval_seconds:
            self._kinds[kind] = (last, left_out + 1)
            return
        self._kinds[kind] = (now, 0)
        if left_out:
            more = " (and %(left_out)d more such since the last line)"
            event = replace(event, text=event.text + more)
            fields["left_out"] = left_out
        event.log(self._logger, exc_info=exc_info, **fields)
