"""The simulation of partitions, for the runner of seeds."""

from __future__ import annotations

from tests.simulation.partitions.disk_faults import CALLS
from tests.simulation.partitions.world import World, run_seed
from tests.simulation.simulation import Simulation

INVARIANTS = (
    *("P1", "P3", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13", "P14", "P15", "P16"),
    *("P19", "P20", "P22", "P23", "P24", "P25", "P26"),
    *("I1", "T3", "T8", "L1"),
)
SOMETIMES = (
    *("kill", "power cut", "wipe", "clean stop", "fenced", "unclean election"),
    *("isolation", "cut links", "slow link", "leader moved", "reassignment"),
    *("topic made again", "records deleted", "ISR changed", "ISR refused"),
    *("not enough replicas", "transaction", "records read", "rolled"),
    *("synced by the kernel", "disk failed", "directory failed", "directory away", "not mounted"),
    *("small file damaged", "did not start", "died within a call", "disk broken to the end"),
    *("move asked for", "move refused", "move given up", "replica moved"),
    *("no directory read", "slow thread"),
    *(f"{call} failed" for call in CALLS),
)
PARTITIONS = Simulation(World, run_seed, INVARIANTS, SOMETIMES)
