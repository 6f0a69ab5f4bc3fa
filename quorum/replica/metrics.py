"""Counts of one replica of the quorum about its own work. Source: Kafka's `KafkaRaftMetrics`."""

from __future__ import annotations

import time

from trimaran.quorum.raft.core import Raft
from trimaran.quorum.raft.roles import Candidate, Prospective
from trimaran.wire.transport.metrics.rate import Rate, Windows
from trimaran.wire.transport.metrics.time_histogram import TimeHistogram

# As Kafka's metrics by default: `metrics.num.samples`, `metrics.sample.window.ms`.
_WINDOWS = Windows(2, 30.0)


class QuorumMetrics:
    """`appended` and `fetched` are records: written as leader, copied from one; their clock is `time.monotonic`.

    `commit_times` are those from proposing a batch to knowing that a majority has it; `election_times` those from
    standing for election to a known leader.
    """

    def __init__(self) -> None:
        self.appended = Rate(_WINDOWS)
        self.fetched = Rate(_WINDOWS)
        self.commit_times = TimeHistogram()
        self.election_times = TimeHistogram()
        self._election_began: float | None = None

    def follow(self, raft: Raft) -> None:
        """Looks at the role that the core has now."""
        if isinstance(raft.role, Candidate | Prospective):
            if self._election_began is None:
                self._election_began = time.monotonic()
        elif self._election_began is not None and raft.leader_id is not None:
            now = time.monotonic()
            self.election_times.observe(now - self._election_began, now)
            self._election_began = None
