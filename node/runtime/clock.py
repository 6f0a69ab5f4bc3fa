"""The one place that reads the wall clock. Monotonic time is `trio.current_time()`."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Wall-clock milliseconds since 1970, as record timestamps want them; may jump both ways."""
    return time.time_ns() // 1_000_000
