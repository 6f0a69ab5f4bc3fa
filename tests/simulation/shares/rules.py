"""The configuration and faults of a run with share groups."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.coordinators import rules as coordinators
from tests.simulation.partitions import faults

# Each of two groups has its own settings and clients: members of the second come and go, and an operator alters it.
STEADY, ALTERED = "steady", "altered"
QUEUE = "dlq.in"
# The queues of a run: none; one that exists; one that is missing; one that is not enabled.
NO_QUEUE, QUEUE_THERE, QUEUE_MISSING, QUEUE_REFUSED = "none", "there", "missing", "refused"


@dataclass(frozen=True)
class Rules(coordinators.Rules):
    """The configuration of a run. `members` is the number of members of the steady group, `deliveries` the limit of
    deliveries, `locks` the number of records in flight, `lock_ms` the duration of a lock. The share coordinator makes a
    snapshot after `updates` updates. `reset` is where a group begins, `queue` the state of its dead-letter queue.
    `explicit` is the share of requests that acknowledge records one by one, `keeps` that of responses whose records are
    kept for a while, perhaps for longer than their locks. `attempts` is the number of attempts to reach a share
    coordinator.
    """

    members: int = 2
    deliveries: int = 3
    locks: int = 200
    lock_ms: int = 400
    updates: int = 3
    reset: str = "earliest"
    queue: str = NO_QUEUE
    explicit: float = 0.5
    record_limit: bool = False
    most: int = 500
    alters: bool = True
    renews: bool = True
    keeps: float = 0.0
    attempts: int = 12

    @classmethod
    def draw(cls, prng: random.Random) -> Rules:
        return cls(
            brokers=3,
            factor=3,
            min_isr=2,
            elr=prng.random() < 0.5,
            segment_bytes=prng.choice((2500, 1 << 20, 1 << 20)),
            fetch_bytes=prng.choice((500, 1 << 20)),
            producers=1,
            inputs=prng.choice((1, 1, 2, 3)),
            shards=prng.choice((1, 2)),
            bumps=True,
            slow_loads=prng.choice((0.0, 0.02, 0.1)),
            kernel_takes=prng.choice(faults.KERNEL_TAKES),
            members=prng.choice((1, 2, 3)),
            deliveries=prng.choice((2, 3, 3, 5)),
            locks=prng.choice((6, 20, 200)),
            lock_ms=prng.choice((200, 400, 1000)),
            updates=prng.choice((0, 1, 3, 10)),
            reset=prng.choice(("earliest", "earliest", "latest", "by_duration:PT1H")),
            queue=prng.choice((NO_QUEUE, QUEUE_THERE, QUEUE_THERE, QUEUE_MISSING, QUEUE_REFUSED)),
            explicit=prng.choice((0.0, 0.5, 0.9)),
            record_limit=prng.random() < 0.4,
            most=prng.choice((1, 3, 500)),
            alters=prng.random() < 0.6,
            renews=prng.random() < 0.8,
            keeps=prng.choice((0.0, 0.1, 0.4)),
            attempts=prng.choice((2, 12, 12)),
        )


class Faults(coordinators.Faults):
    """The faults of a run: of those of coordinators, `stuck` applies to all requests of members."""

    @classmethod
    def draw(cls, prng: random.Random) -> Faults:
        drawn = super().draw(prng)
        if prng.random() < 0.7:
            drawn.disk_fails_every = drawn.wipe = 0.0  # an unclean election ends the checks
        drawn.delete_records_every = prng.choice((0.0, 0.0, 0.5, 1.5))
        return drawn
