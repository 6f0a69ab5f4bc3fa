"""The configuration of a run's cluster and topics, and its faults. Each seed draws a random subset (swarm testing)."""

from __future__ import annotations

import random
from dataclasses import dataclass

KERNEL_TAKES = (0.0, 0.8, 1.0, 1.0)


def drawn_aside(prng: random.Random) -> random.Random:
    """Returns a second random generator; drawing from it leaves all other draws of a seed unchanged."""
    aside = random.Random()
    aside.setstate(prng.getstate())
    aside.seed(aside.random())
    return aside


@dataclass(frozen=True)
class Rules:
    """The configuration of a run. With `elr` eligible leader replicas are kept (KIP-966). Sizes are small, so that
    segments roll and fetches end inside segments. `kernel_takes` is the share of flushes that the kernel accepts;
    threads perform the others.
    """

    brokers: int = 3
    partitions: int = 1
    factor: int = 3
    min_isr: int = 2
    elr: bool = False
    segment_bytes: int = 1 << 20
    retention_bytes: int = -1
    fetch_bytes: int = 1 << 20
    producers: int = 2
    transactions: bool = False
    kernel_takes: float = 0.0
    directories: int = 1
    move_bytes: int = 1 << 20
    preallocates: bool = False
    acks_all: float = 0.8  # the share of batches
    even_batches: bool = False  # of equal size, so that one may exactly replace another in a file

    @classmethod
    def draw(cls, prng: random.Random) -> Rules:
        aside = drawn_aside(prng)
        factor = prng.choice((2, 3, 3, 3))
        return cls(
            brokers=prng.choice((3, 3, 4)),
            partitions=prng.choice((1, 1, 2)),
            factor=factor,
            min_isr=prng.choice((1, 2, 2)),
            elr=prng.random() < 0.5,
            segment_bytes=prng.choice((600, 2000, 1 << 20)),
            retention_bytes=prng.choice((-1, -1, 2500)),
            fetch_bytes=prng.choice((1, 500, 1 << 20)),
            producers=prng.choice((1, 2, 3)),
            transactions=prng.random() < 0.4,
            kernel_takes=aside.choice(KERNEL_TAKES),
            directories=aside.choice((1, 1, 2, 3)),
            move_bytes=aside.choice((200, 1000, 1 << 20)),
            preallocates=aside.random() < 0.2,
            even_batches=aside.random() < 0.3,
        )


@dataclass
class Faults:
    """The faults of a run. `…_every` are the mean seconds between two events; zero disables the fault. The other values
    are probabilities, or seconds. Some apply to brokers with several directories only: `directory_fails_every` to
    failing calls of the file layer, a share `dies` of which end the process instead; `away` to a missing directory, and
    `damage` to a damaged small file, at a start; `move_every` to moves of replicas. With `slow_thread` the loop is
    notified late of the work of a thread, and the end of a read may be newer than its beginning. `alone_every` applies
    to brokers that only their clients can reach for a while. `metadata_fails` is the share of failing calls that
    concern the metadata log's directory. `stuck_ends` applies to requests that end transactions, `stuck` to
    coordinators' other requests.
    """

    delay_max: float = 0.01
    crash_every: float = 0.0
    power_cut: float = 0.0
    wipe: float = 0.0
    disk_fails_every: float = 0.0
    stop_every: float = 0.0
    isolate_every: float = 0.0
    partition_every: float = 0.0
    slow_every: float = 0.0
    slow_flush: float = 0.0
    balance_every: float = 0.0
    reassign_every: float = 0.0
    recreate_every: float = 0.0
    delete_records_every: float = 0.0
    directory_fails_every: float = 0.0
    dies: float = 0.0
    away: float = 0.0
    damage: float = 0.0
    move_every: float = 0.0
    slow_thread: float = 0.0
    alone_every: float = 0.0
    metadata_fails: float = 0.2
    stuck: float = 0.0
    stuck_ends: float = 0.0

    @classmethod
    def draw(cls, prng: random.Random) -> Faults:
        aside = drawn_aside(prng)

        def maybe(low: float, high: float, chance: float = 0.5) -> float:
            return prng.uniform(low, high) if prng.random() < chance else 0.0

        return cls(
            delay_max=prng.choice((0.005, 0.02, 0.1, 0.4)),
            crash_every=maybe(0.4, 2.5, 0.8),
            power_cut=prng.choice((0.0, 0.5, 1.0)),
            wipe=maybe(0.2, 1.0, 0.4),
            disk_fails_every=aside.choice((0.0, 0.0, 1.0, 2.0)),
            stop_every=maybe(1.0, 3.0, 0.3),
            isolate_every=maybe(0.6, 3.0),
            partition_every=maybe(0.6, 3.0),
            slow_every=maybe(0.5, 2.0, 0.3),
            slow_flush=maybe(0.05, 0.4, 0.4),
            balance_every=maybe(0.4, 1.5, 0.6),
            reassign_every=maybe(0.5, 2.0, 0.3),
            recreate_every=maybe(1.0, 4.0, 0.2),
            delete_records_every=maybe(0.4, 2.0, 0.3),
            directory_fails_every=aside.choice((0.0, 0.3, 0.8, 2.0)),
            dies=aside.choice((0.0, 0.3, 0.6)),
            away=aside.choice((0.0, 0.3, 0.6)),
            damage=aside.choice((0.0, 0.0, 0.5)),
            move_every=aside.choice((0.15, 0.3, 1.0)),
            slow_thread=aside.choice((0.0, 0.1, 0.5)),
            alone_every=aside.choice((0.0, 0.0, 1.5)),
        )

    def cut_nobody_off(self) -> None:
        """Disables the faults that would delay metadata changes."""
        self.crash_every = self.stop_every = self.isolate_every = 0.0
        self.partition_every = self.slow_every = self.disk_fails_every = 0.0

    def stop(self) -> None:
        """Disables all faults."""
        for name in vars(self):
            setattr(self, name, 0.0)
        self.delay_max = 0.005

    def flush_seconds(self, prng: random.Random) -> float:
        if self.slow_flush and prng.random() < self.slow_flush:
            return prng.uniform(0.05, 0.6)
        return prng.uniform(0.0005, 0.004)
