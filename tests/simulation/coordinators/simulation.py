"""The simulation of coordinators, for the runner of seeds."""

from __future__ import annotations

from tests.simulation.coordinators.world import CoordinatorWorld, run_seed
from tests.simulation.simulation import Simulation

INVARIANTS = (
    *("P1", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P15", "P18", "I1", "I3"),
    *("I4", "T1", "T3", "T5", "T6", "T7", "T8", "T9", "T10", "G1", "G2", "G3", "G4", "G5", "L1"),
)
SOMETIMES = (
    *("kill", "power cut", "wipe", "clean stop", "fenced", "isolation", "cut links", "slow link"),
    *("leader moved", "reassignment", "ISR changed", "transaction", "transaction aborted"),
    *("vanished", "frozen", "joined", "offsets committed", "records read", "stuck request"),
    *("epochs used up", "upgraded", "downgraded", "rolled", "compacted"),
)
COORDINATORS = Simulation(CoordinatorWorld, run_seed, INVARIANTS, SOMETIMES)
