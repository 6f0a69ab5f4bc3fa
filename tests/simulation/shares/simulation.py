"""The simulation of share groups, for the runner of seeds."""

from __future__ import annotations

from tests.simulation.shares.world import SharesWorld, run_seed
from tests.simulation.simulation import Simulation

INVARIANTS = (
    *("P1", "P5", "P6", "P7", "P8", "P9", "P10", "P13", "P15", "L1"),
    *("Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13"),
)
SOMETIMES = (
    *("kill", "power cut", "clean stop", "fenced", "isolation", "cut links", "slow link"),
    *("leader moved", "records deleted", "stuck request", "request repeated", "frozen", "rolled"),
    *("records acquired", "acknowledged", "session lost", "session refused", "member rejoins"),
    *("share partition loaded", "dead letter", "pruned"),
    *("offsets altered", "offsets deleted", "group deleted"),
)
SHARES = Simulation(SharesWorld, run_seed, INVARIANTS, SOMETIMES)
