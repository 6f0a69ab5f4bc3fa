"""Bugs planted in the share coordinator, the share groups and the share partitions: a seed must find each one, unless
`ELSEWHERE` names a test that does.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.shares.mutants.sharing import SHARING
from tests.simulation.shares.mutants.states import STATES
from tests.simulation.shares.world import run_seed

# Tests of the rules, for bugs that few or no seeds find.
_ACKNOWLEDGING = "tests/broker/sharing/test_acknowledging.py"
_ACQUIRING = "tests/broker/sharing/test_acquiring.py"
_SESSIONS = "tests/broker/sharing/test_share_sessions.py"
_SHARD = "tests/broker/share_state/test_shard.py"
_GROUPS = "tests/broker/groups/share"
ELSEWHERE = {
    "failed initializations are forgotten": f"{_GROUPS}/test_state_partitions.py",
    "failed initializations count": f"{_GROUPS}/test_following_up.py",
    "fenced initializations change nothing": f"{_GROUPS}/test_offsets.py",
    "finished partitions are initialized": f"{_GROUPS}/test_offsets.py",
    "repeated initializations reset": f"{_SHARD}::test_a_late_initialize_redelivers_nothing",
    "failed writes are not undone": _ACKNOWLEDGING,
    "heartbeats do not count": f"{_GROUPS}/test_transcripts.py",
    "initializations are not stored": f"{_SHARD}::test_initialize_again_forgets_the_batches",
    "letters of earlier leaders are lost": f"{_ACKNOWLEDGING}::test_stored_dead_letters_are_resumed",
    "locks are unlimited": _ACQUIRING,
    "old leaders write": f"{_SHARD}::test_a_lower_leader_epoch_is_fenced",
    "old state epochs write": f"{_SHARD}::test_a_lower_state_epoch_is_fenced",
    "reads fence nobody": f"{_SHARD}::test_read_by_a_new_leader_writes_its_epoch",
    "renewals are ignored": f"{_ACKNOWLEDGING}::test_renewal_begins_the_lock_anew",
    "session epochs do not count": _SESSIONS,
}

SHARES = tuple(
    Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)
    for name, patch, expected, emphasis in (*SHARING, *STATES)
)


def named(name: str) -> Any:
    return next(mutant for mutant in SHARES if mutant.name == name)
