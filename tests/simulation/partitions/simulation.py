"""The simulation of partitions, for the runner of seeds."""

from __future__ import annotations

from tests.simulation.partitions.world import World, run_seed
from tests.simulation.simulation import Simulation

INVARIANTS = (
    *("P1", "P3", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15", "P16"),
    *("I1", "T3", "T8", "L1"),
)
SOMETIMES = (
    *("kill", "power cut", "wipe", "clean stop", "fenced", "unclean election"),
    *("isolation", "cut links", "slow link", "leader moved", "reassignment"),
    *("topic made again", "records deleted", "ISR changed", "ISR refused"),
    *("not enough replicas", "transaction", "records read", "rolled"),
    *("synced by the kernel", "disk failed"),
)
PARTITIONS = Simulation(World, run_seed, INVARIANTS, SOMETIMES)
