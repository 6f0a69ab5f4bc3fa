"""Log lines that a hostile peer can cause: one a kind in a while, with a count of those left out.

Left out: what is logged once by our own doing; that goes to the logger directly.
"""

from __future__ import annotations

import logging
import math

import trio

# Seconds between two lines of one kind: enough to notice, too few to fill a disk.
_INTERVAL_SECONDS = 10.0


class LimitedLog:
    """Kinds are literals of our own code, so their number is bounded."""

    def __init__(self, logger: logging.Logger, interval_seconds: float = _INTERVAL_SECONDS) -> None:
        self._logger = logger
        self._interval_seconds = interval_seconds
        # kind -> (when the last line was written, how many were left out since)
        self._kinds: dict[str, tuple[float, int]] = {}

    def warning(self, kind: str, text: str, *args: object) -> None:
        """Logs `text % args`; everything in `args` that came from a peer must be escaped (`%r`, `%a`)."""
        self._log(logging.WARNING, kind, None, text, *args)

    def exception(self, kind: str, error: Exception, text: str, *args: object) -> None:
        """Logs the traceback of `error` too: a mistake of ours that a peer may know how to repeat."""
        self._log(logging.ERROR, kind, error, text, *args)

    def _log(
        self, level: int, kind: str, error: Exception | None, text: str, *args: object
    ) -> None:
        now = trio.current_time()
        last, left_out = self._kinds.get(kind, (-math.inf, 0))
        if now - last < self._interval_seconds:
            self._kinds[kind] = (last, left_out + 1)
            return
        self._kinds[kind] = (now, 0)
        if left_out:
            text += " (and %d more such since the last line)"
            args = (*args, left_out)
        self._logger.log(level, text, *args, exc_info=error)
