"""Proposals that wait briefly for further ones, so that they are appended together.

The first one starts the clock. When the linger time has passed, or the proposals fill a batch of the largest size, all
are appended with one write and one fsync. Each stays an atomic batch of its own. Source: Kafka's `BatchAccumulator`,
which merges them into one batch.
"""

from __future__ import annotations

from math import inf

from trimaran.quorum.raft.ready import Proposal


class Linger:
    """The waiting proposals. `deadline` is when `poll` must be called: immediately for the first proposal, because
    `propose` does not read the clock.
    """

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self.deadline = inf
        self.record_count = 0
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._batches: list[Proposal] = []
        self._bytes = 0

    def add(self, batch: Proposal) -> None:
        if not self._batches:
            self.deadline = -inf
        self._batches.append(batch)
        self.record_count += batch.record_count
        self._bytes += len(batch.batch)

    @property
    def is_full(self) -> bool:
        return self._seconds == 0 or self._bytes >= self._max_bytes

    def has_ended(self, now: float) -> bool:
        """Returns whether the proposals have waited long enough; the first call starts the clock."""
        if self.deadline == -inf:
            self.deadline = now + self._seconds
        return now >= self.deadline

    def take(self) -> list[Proposal]:
        batches, self._batches = self._batches, []
        self.deadline, self.record_count, self._bytes = inf, 0, 0
        return batches
