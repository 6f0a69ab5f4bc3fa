"""Rate-limited log lines for events that a hostile peer can cause: a few of each kind per interval, with a count of the
omitted ones.

Events that only this node can cause go to the logger directly.
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
    """A limit per kind. Kinds are events and names of our own code, so their number is bounded."""

    def __init__(
        self,
        logger: logging.Logger,
        interval_seconds: float = _INTERVAL_SECONDS,
        *,
        lines_max: int = 1,
    ) -> None:
        """Limits each kind to `lines_max` lines per interval, which begins with the kind's first line."""
        self._logger = logger
        self._interval_seconds = interval_seconds
        self._lines_max = lines_max
        # event and `of` -> (beginning of its interval, lines written or omitted in it)
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def log(
        self,
        event: Event,
        *,
        of: str = "",
        exc_info: BaseException | None = None,
        **fields: object,
    ) -> None:
        """Logs like `Event.log`. The event's text must escape fields that came from a peer (`%(x)a`). `of`
        distinguishes kinds of one event.
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
