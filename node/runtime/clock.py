"""The only module that reads the wall clock. Monotonic time is `trio.current_time()`."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Returns wall-clock milliseconds since 1970, as in record timestamps; they may jump forwards or backwards."""
    return time.time_ns() // 1_000_000
