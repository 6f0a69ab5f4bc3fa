"""Counts of one quorum replica's own work. Source: Kafka's `KafkaRaftMetrics`."""

from __future__ import annotations

import time

from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.roles import Candidate, Prospective
from trimaran.wire.transport.metrics.rate import Rate, Windows
from trimaran.wire.transport.metrics.time_histogram import TimeHistogram

# The default windows of Kafka's metrics: `metrics.num.samples`, `metrics.sample.window.ms`.
_WINDOWS = Windows(2, 30.0)


class QuorumMetrics:
    """Metrics of a replica. `appended` and `fetched` count records, written as leader and copied from a leader; their
    clock is `time.monotonic`.

    `commit_times` run from the proposal of a batch until a majority is known to have it; `election_times` from the
    start of a candidacy until a leader is known.
    """

    def __init__(self) -> None:
        self.appended = Rate(_WINDOWS)
        self.fetched = Rate(_WINDOWS)
        self.commit_times = TimeHistogram()
        self.election_times = TimeHistogram()
        self._election_began: float | None = None

    def follow(self, raft: Raft) -> None:
        """Notes the core's present role."""
        if isinstance(raft.role, Candidate | Prospective):
            if self._election_began is None:
                self._election_began = time.monotonic()
        elif self._election_began is not None and raft.leader_id is not None:
            now = time.monotonic()
            self.election_times.observe(now - self._election_began, now)
            self._election_began = None
