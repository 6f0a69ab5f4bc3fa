"""The configuration and faults of a run with coordinators. Topics are never recreated and records never deleted,
because the checker reads the internal topics from their beginning, as a loading coordinator does.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.partitions import faults
from trimaran.broker.transactions.transaction import EPOCH_MAX

INPUT, OUTPUT = "in", "out"
MAP_SLOTS = 1 << 14
DAY_MS = 86_400_000
# Retention of tombstones. The long one exceeds the time for which a replica can be behind: a replica that misses a
# tombstone before its removal keeps the deleted value, as in Kafka. With the short one no broker is cut off.
OUTAGES_MS, BRIEF_MS = 6000, 1500


@dataclass(frozen=True)
class Rules(faults.Rules):
    """The configuration of a run. `inputs` and `outputs` are partition counts of the user's topics, `shards` that of
    each internal topic. With `bumps` the transformers use the protocol of `transaction.version` 2, otherwise that of 1;
    with `consumer_protocol` they are members by KIP-848. `migrants` change their kind, all in one group. `epoch_max` is
    a producer's last epoch. A broker compacts the internal topics about every `compact_every` seconds (0: never), with
    a map of `map_slots` keys.
    """

    inputs: int = 2
    outputs: int = 2
    shards: int = 2
    bumps: bool = True
    consumer_protocol: bool = True
    transformers: int = 2
    rivals: bool = True
    transaction_ms: int = 900
    freeze: float = 0.1
    committers: int = 2
    slow_loads: float = 0.0
    static: bool = False
    epoch_max: int = EPOCH_MAX
    migrants: int = 0
    compact_every: float = 0.0
    map_slots: int = MAP_SLOTS
    delete_retention_ms: int = DAY_MS

    @classmethod
    def draw(cls, prng: random.Random) -> Rules:
        aside = faults.drawn_aside(prng)
        return cls(
            brokers=3,
            factor=3,
            min_isr=2,
            elr=prng.random() < 0.5,
            segment_bytes=prng.choice((2500, 1 << 20, 1 << 20)),
            fetch_bytes=prng.choice((500, 1 << 20)),
            producers=1,
            inputs=prng.choice((1, 2, 3)),
            outputs=prng.choice((1, 2)),
            shards=prng.choice((1, 2)),
            bumps=prng.random() < 0.6,
            consumer_protocol=prng.random() < 0.5,
            transformers=prng.choice((1, 2, 3)),
            rivals=prng.random() < 0.5,
            transaction_ms=prng.choice((400, 900, 2500)),
            freeze=prng.choice((0.0, 0.05, 0.2)),
            committers=prng.choice((1, 2)),
            slow_loads=prng.choice((0.0, 0.02, 0.1)),
            static=prng.random() < 0.3,
            epoch_max=prng.choice((EPOCH_MAX, EPOCH_MAX, 3, 6)),
            migrants=aside.choice((0, 2, 3)),
            compact_every=aside.choice((0.0, 0.1, 0.1, 0.4)),
            map_slots=aside.choice((MAP_SLOTS, 12)),
            delete_retention_ms=aside.choice((DAY_MS, OUTAGES_MS, BRIEF_MS)),
            kernel_takes=aside.choice(faults.KERNEL_TAKES),
        )


class Faults(faults.Faults):
    @classmethod
    def draw(cls, prng: random.Random) -> Faults:
        drawn = super().draw(prng)
        drawn.recreate_every = drawn.delete_records_every = 0.0
        # A transaction takes a dozen requests; none would complete if faults were too frequent.
        for name in ("crash_every", "isolate_every", "partition_every", "slow_every"):
            setattr(drawn, name, getattr(drawn, name) * prng.choice((0.0, 1.0, 2.0, 3.0)))
        drawn.stuck = prng.choice((0.0, 0.0, 0.02, 0.1))
        drawn.stuck_ends = prng.choice((0.0, 0.0, 0.05, 0.2))
        drawn.delay_max = min(drawn.delay_max, prng.choice((0.02, 0.1, 0.4)))
        return drawn
