"""Bugs planted in the share coordinator, the share groups and the share partitions: a seed must find each one, unless
`ELSEWHERE` names a test that does.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.shares.mutants.sharing import SHARING
from tests.simulation.shares.mutants.states import STATES
from tests.simulation.shares.world import run_seed

# Tests of the rules, for bugs that few or no seeds find: late and repeated initializations are rare.
_SHARD = "tests/broker/share_state/test_shard.py"
_OFFSETS = "tests/broker/groups/share/test_offsets.py"
ELSEWHERE = {
    "fenced initializations change nothing": f"{_OFFSETS}::test_fenced_initialization_increments_the_epoch",
    "finished partitions are initialized": f"{_OFFSETS}::test_initialization_omits_finished_partitions",
    "repeated initializations reset": f"{_SHARD}::test_a_late_initialize_redelivers_nothing",
}

SHARES = tuple(
    Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)
    for name, patch, expected, emphasis in (*SHARING, *STATES)
)


def named(name: str) -> Any:
    return next(mutant for mutant in SHARES if mutant.name == name)
