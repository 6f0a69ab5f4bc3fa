"""Bugs planted in the coordinators and in what they stand on: each must be found by some seed, or `ELSEWHERE` says why
it is not.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.coordinators.mutants.groups import GROUPS
from tests.simulation.coordinators.mutants.shards import SHARDS
from tests.simulation.coordinators.mutants.transactions import TRANSACTIONS
from tests.simulation.coordinators.world import run_seed
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants import PARTITIONS

# Of the partition layer: leader epochs, watermarks, ISR, and what read_committed sees.
BENEATH = (
    *("epoch start not recorded", "joins below the watermark", "waits for nobody"),
    *("counts what is not flushed", "too few commit", "keeps what diverges"),
    *("acks when the epoch ends", "watermark begins at the end", "cuts to the watermark"),
    *("told before it is flushed", "reads above the watermark", "read_committed reads all"),
    *("open transactions are stable", "markers count at once", "aborted are not named"),
    *("duplicates are appended", "anybody is elected", "epochs survive a truncation"),
)
# What is broken below them coordinators may notice first.
NOTICED = ("G1", "G2", "G3", "G4", "G5", "T1", "T3", "T5", "T6", "T7", "T8", "T10", "I1", "I4")
_ROUGH = {"crash_every": 0.4, "power_cut": 0.5, "delay_max": 0.1, "balance_every": 0.5}

ELSEWHERE: dict[str, str] = {}

COORDINATORS = (
    *(
        Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)
        for name, patch, expected, emphasis in (*TRANSACTIONS, *SHARDS, *GROUPS)
    ),
    *(
        Mutant(one.name, one.patch, (*one.expected, *NOTICED), {"emphasis": dict(_ROUGH)}, run_seed)
        for one in PARTITIONS
        if one.name in BENEATH
    ),
)


def named(name: str) -> Any:
    return next(one for one in COORDINATORS if one.name == name)
