"""What is counted of the requests of one API: how many of each version, how they ended, how long they took.

Always on: a request costs it less than a microsecond. Source: Kafka's `RequestMetrics`. The time is that from when the
request is decoded to when its answer is encoded, with all that it waited in between. Left out: errors of single
topics or partitions within an answer; answers that another node wrote count as such without error.
"""

from __future__ import annotations

import time

from wire.errors import ErrorCode
from wire.transport.time_histogram import TimeHistogram


class RequestMetrics:
    """Of one API; a few hundred bytes until it is first asked for."""

    __slots__ = ("by_version", "errors", "name", "times")

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_version: dict[int, int] = {}
        self.errors: dict[int, int] = {}
        self.times = TimeHistogram()

    def ended(self, version: int, began: float, response: object) -> None:
        """`began` on the clock of `time.monotonic`; `response` is a message, or None, or bytes."""
        self.by_version[version] = self.by_version.get(version, 0) + 1
        code = int(getattr(response, "error_code", ErrorCode.NONE))
        self.errors[code] = self.errors.get(code, 0) + 1
        now = time.monotonic()
        self.times.observe(now - began, now)
