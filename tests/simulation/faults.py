"""Possible faults of a run: each seed draws a random subset of faults, each with a random intensity (swarm testing)."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass
class Faults:
    """Probabilities are per message or event, times in seconds; zero means that the fault does not occur."""

    loss: float = 0.0
    duplication: float = 0.0
    delay_max: float = 0.01
    clog_every: float = 0.0
    partition_every: float = 0.0
    crash_every: float = 0.0
    power_cut: float = 0.0
    crash_inside: float = 0.0
    slow_flush: float = 0.0
    false_gone: float = 0.0
    sees_deaths: bool = True
    snapshot_every: int = 0
    change_voters_every: float = 0.0
    moves: float = 0.0
    bit_flips: float = 0.0
    clock_jumps_every: float = 0.0
    hostile_every: float = 0.0

    @classmethod
    def draw(cls, prng: random.Random) -> Faults:
        def maybe(low: float, high: float, chance: float = 0.5) -> float:
            return prng.uniform(low, high) if prng.random() < chance else 0.0

        return cls(
            loss=maybe(0.01, 0.2, 0.4),
            duplication=maybe(0.01, 0.3, 0.3),
            delay_max=prng.choice((0.005, 0.02, 0.2, 0.8)),
            clog_every=maybe(1.0, 4.0, 0.3),
            partition_every=maybe(1.0, 4.0),
            crash_every=maybe(0.5, 3.0, 0.6),
            power_cut=prng.choice((0.0, 0.5, 1.0)),
            crash_inside=maybe(0.001, 0.03, 0.4),
            slow_flush=maybe(0.05, 0.3, 0.3),
            false_gone=maybe(0.5, 3.0, 0.2),
            sees_deaths=prng.random() < 0.7,
            snapshot_every=prng.choice((0, 0, 6, 20)),
            change_voters_every=maybe(0.2, 2.0),
            moves=maybe(0.1, 0.7, 0.3),
            bit_flips=maybe(0.1, 0.7, 0.3),
            clock_jumps_every=maybe(0.5, 4.0, 0.3),
            hostile_every=maybe(0.1, 1.0, 0.3),
        )

    def stop(self) -> None:
        """Disables all faults; snapshots continue."""
        self.loss = self.duplication = self.clog_every = self.partition_every = 0.0
        self.crash_every = self.crash_inside = self.slow_flush = self.false_gone = self.moves = 0.0
        self.bit_flips = self.clock_jumps_every = self.hostile_every = 0.0
        self.delay_max = 0.01

    def flush_seconds(self, prng: random.Random) -> float:
        if self.slow_flush and prng.random() < self.slow_flush:
            return prng.uniform(0.05, 1.0)
        return prng.uniform(0.0005, 0.005)
