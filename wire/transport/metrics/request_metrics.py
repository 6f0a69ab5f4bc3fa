"""Counts of the requests of one API: how many of each version, how they ended, how long they took.

Always on: a request costs it less than a microsecond. Source: Kafka's `RequestMetrics`. The time is that from when the
request is decoded to when its answer is encoded, with all that it waited in between. Not counted: errors of single
topics or partitions within an answer; answers that another node wrote count as such without error.
"""

from __future__ import annotations

import time

from trimaran.wire.transport.metrics.time_histogram import TimeHistogram


class RequestMetrics:
    """The metrics of one API; a few hundred bytes until the first request."""

    __slots__ = ("name", "outcomes", "times")

    def __init__(self, name: str) -> None:
        self.name = name
        # By version and error code of the whole answer.
        self.outcomes: dict[tuple[int, int], int] = {}
        self.times = TimeHistogram()

    def ended(self, version: int, began: float, response: object) -> None:
        """`began` on the clock of `time.monotonic`; `response` is a message, or None, or bytes."""
        outcome = version, getattr(response, "error_code", 0)
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        now = time.monotonic()
        self.times.observe(now - began, now)
