"""Bugs planted in the partition layer: a seed must find each one, unless `ELSEWHERE` names a test that does."""

from __future__ import annotations

from typing import Any

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants.controllers import CONTROLLERS
from tests.simulation.partitions.mutants.directories import DIRECTORIES
from tests.simulation.partitions.mutants.flushes import FLUSHES
from tests.simulation.partitions.mutants.followers import FOLLOWERS
from tests.simulation.partitions.mutants.leaders import LEADERS
from tests.simulation.partitions.mutants.logs import LOGS
from tests.simulation.partitions.mutants.moves import MOVES
from tests.simulation.partitions.mutants.reading import READING
from tests.simulation.partitions.world import run_seed

# Rules and faults of a run that make a rare bug likely.
_LATE = {"delay_max": 0.4, "balance_every": 0.4, "isolate_every": 0.6, "min_isr": 1}
_POWER = {"crash_every": 0.3, "power_cut": 1.0, "slow_flush": 0.9}
_DISKS = {**_POWER, "disk_fails_every": 0.3, "min_isr": 1}
_WIPES = {"wipe": 1.0, "crash_every": 0.5, "elr": True, "min_isr": 2, "factor": 3}
EMPHASIS: dict[str, dict[str, Any]] = {
    "watermark of the namesake": {"recreate_every": 0.6, "crash_every": 0.4, "power_cut": 1.0},
    "a namesake's log is opened": {"recreate_every": 0.6, "crash_every": 0.4},
    "stale incarnations count": {
        **_WIPES,
        "power_cut": 1.0,
        "slow_every": 0.2,
        "delay_max": 0.01,
    },
    "emptied disks lead": _WIPES,
    "emptied disks stay in sync": _WIPES,
    "emptied disks stay eligible": _WIPES,
    "position never goes back": _WIPES,
    "old proposals are accepted": {
        "partition_every": 0.3,
        "crash_every": 0.0,
        "delay_max": 0.1,
        "min_isr": 1,
        "factor": 3,
    },
    "refused is committed": {"crash_every": 0.3, "delay_max": 0.4},
    "a flush survives a truncation": {
        "slow_flush": 0.9,
        "balance_every": 0.4,
        "isolate_every": 0.8,
        "crash_every": 0.4,
        "power_cut": 1.0,
        "delay_max": 0.1,
        "min_isr": 1,
    },
    "deletion forgets the log": {"recreate_every": 0.0, "reassign_every": 0.5},
    "one answer is enough": {**_LATE, "reassign_every": 0.3},
    "divergence of an unknown epoch": {
        "stop_every": 0.4,
        "balance_every": 0.2,
        "delay_max": 0.1,
        "producers": 3,
        "min_isr": 1,
        "factor": 3,
    },
    "told when the kernel begins": {**_POWER, "kernel_takes": 1.0, "min_isr": 1},
    "what came meanwhile is flushed": {**_POWER, "kernel_takes": 1.0, "min_isr": 1},
    "errors of the kernel are none": {**_DISKS, "kernel_takes": 1.0},
    "what failed is flushed again": {**_DISKS, "kernel_takes": 0.0},
    "the clean marker stays": {"stop_every": 0.3, **_POWER, "min_isr": 1},
    "recovery point is the end": {**_POWER, "segment_bytes": 200},
    "takes answers of ended epochs": _LATE,
    "ends while it checks": {"crash_every": 0.4, "power_cut": 1.0, "reassign_every": 0.3},
    "joins with another history": {**_LATE, "delete_records_every": 0.3},
    "deleted records are in the way": {**_LATE, "delete_records_every": 0.3},
    "retention passes the watermark": {"retention_bytes": 300, "segment_bytes": 200, **_LATE},
    "all that leave are eligible": {"elr": True, "min_isr": 1, "factor": 3, "isolate_every": 0.5},
}


_MOVES = {
    "move_every": 0.1,
    "move_bytes": 200,
    "elr": False,
    "power_cut": 1.0,
    "crash_every": 0.5,
    "away": 0.0,
    "damage": 0.0,
}
_FAILS = {"directory_fails_every": 0.3, "dies": 0.0, "elr": False, "move_every": 0.3}
_REMADE = {"recreate_every": 0.6, "elr": False, "away": 0.6, "damage": 0.0}
_AWAY = {**_MOVES, "away": 0.6, "dies": 1.0, "directory_fails_every": 0.3, "directories": 3}
# A source that is truncated while it is copied; a copy whose source is missing, on the only broker in sync.
_CUT = {
    **_MOVES,
    **_LATE,
    "alone_every": 0.6,
    "acks_all": 0.3,
    "partitions": 1,
    "isolate_every": 0.0,
    "stop_every": 0.0,
    "delay_max": 0.02,
    "crash_every": 0.0,
    "move_bytes": 1000,
    "producers": 3,
    "slow_thread": 0.7,
    "move_every": 0.05,
}
_PARTS = {**_AWAY, "slow_thread": 0.5, "min_isr": 1, "producers": 3, "crash_every": 0.3}
STORAGE: dict[str, dict[str, Any]] = {
    "the source goes first": {**_MOVES, **_FAILS},
    "what was cut meanwhile is copied": {**_CUT, "even_batches": True},
    "the longer of two stays": {**_REMADE, "crash_every": 0.3},
    "the shorter of two stays": {**_AWAY, "move_every": 0.05},
    "copies alone are complete": _PARTS,
    "a copy is taken for whole": {
        **_PARTS,
        "away": 0.0,
        "dies": 0.0,
        "crash_every": 0.0,
        "directory_fails_every": 0.05,
        "metadata_fails": 0.0,
    },
    "a move that was given up goes on": {**_MOVES, "slow_thread": 0.5},
    "any log is made": _AWAY,
    "a failed directory hides the others": {
        **_FAILS,
        "directories": 3,
        "directory_fails_every": 0.25,
        "recreate_every": 0.7,
        **dict.fromkeys(("crash_every", "stop_every", "reassign_every", "isolate_every"), 0.0),
        **dict.fromkeys(("disk_fails_every", "alone_every", "metadata_fails"), 0.0),
        **dict.fromkeys(("away", "damage", "slow_thread"), 0.0),
    },
    "a lost replica is not told": {"damage": 1.0, "crash_every": 0.4, "elr": False},
    "a replica that lies elsewhere is not claimed": {
        "damage": 1.0,
        "crash_every": 0.3,
        "elr": False,
        "min_isr": 1,
    },
    "an error of a disk is taken for a passing one": {
        **_FAILS,
        **_POWER,
        "directory_fails_every": 0.15,
    },
    "copies are not flushed": _MOVES,
    "purged before the copy is durable": _MOVES,
    "the name of a copy is not synced": {**_MOVES, "dies": 1.0, "directory_fails_every": 0.3},
    "ends before all is copied": _MOVES,
    "copies are not aligned": {**_MOVES, **_LATE, "crash_every": 0.0},
    "the start is not carried": {**_MOVES, "delete_records_every": 0.2},
    "epochs are not carried": {**_MOVES, "balance_every": 0.4},
    "a copy of another topic goes on": {**_MOVES, "recreate_every": 0.5},
    "offline directories are not told": _FAILS,
    "failed syncs are forgotten": {**_POWER, "disk_fails_every": 0.2, "elr": False},
    "failures are not noticed": _FAILS,
    "damaged is none": {"damage": 1.0, "crash_every": 0.4, "elr": False},
    "offsets of a namesake stay": {**_REMADE, "crash_every": 0.4},
    "strays stay": {"reassign_every": 0.4, "crash_every": 0.4, "away": 0.6},
}


def _mutant(name: str, patch: Any, expected: tuple[str, ...]) -> Mutant:
    """Brokers have one directory, as they had when the bug was hunted first."""
    emphasis = {"directories": 1, **EMPHASIS.get(name, {})}
    return Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)


def _of_storage(name: str, patch: Any, expected: tuple[str, ...]) -> Mutant:
    emphasis = {"directories": 2, **STORAGE.get(name, {})}
    return Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)


PARTITIONS = (
    *(_mutant(*item) for item in (*LEADERS, *FOLLOWERS, *READING, *LOGS, *FLUSHES, *CONTROLLERS)),
    *(_of_storage(*item) for item in (*MOVES, *DIRECTORIES)),
)

# The tests of the rule, for bugs that few or no seeds find. `./dev simulate --mutants --partitions` runs them
# with the bug planted, if no seed has found it.
_FETCHER = "tests/broker/replication/test_fetcher_rules.py"
_FETCH_CLIENT = "tests/broker/replication/test_fetch_client_rules.py"
_FOLLOWER = "tests/broker/partitions/test_follower_rules.py"
_LEADER = "tests/broker/partitions/test_leader.py"
_REGISTRY = "tests/broker/partitions/test_registry_rules.py"
_EPOCHS = "tests/broker/partitions/test_leader_epochs.py"
_ISR = "tests/broker/partitions/test_isr_rules.py"
_PROPOSALS = "tests/broker/partitions/test_alter_partitions.py"
_PRODUCERS = "tests/log/producers/test_manager.py"
_FAULTS = "tests/log/partitions/test_faults.py"
_UNFINISHED = "tests/broker/storage/test_unfinished_moves.py"
_FAILED = "tests/broker/test_failed_directories.py"
ELSEWHERE = {
    "what was cut meanwhile is copied": (
        "tests/broker/background/test_directory_moves.py::test_data_read_during_source_truncation_is_not_copied"
    ),
    "a failed directory hides the others": (
        f"{_FAILED}::test_topic_is_recreated_while_namesakes_directory_offline"
    ),
    "copies alone are complete": (
        f"{_UNFINISHED}::test_possibly_partial_copy_waits_for_its_source"
    ),
    "a retry asks for nobody": f"{_PROPOSALS}::test_unreachable_controller_is_asked_again_after_pause",
    "passes over the batch that straddles": (
        f"{_EPOCHS}::test_follower_takes_batch_containing_leaders_start"
    ),
    "looks without pause": f"{_FETCHER}::test_due_partition_waits_for_anothers_flush",
    "producers survive a truncation": f"{_PRODUCERS}::test_the_state_is_a_function_of_the_log",
    "joins with another history": (
        f"{_ISR}::test_follower_of_another_history_joins_after_truncation"
    ),
    "deleted records are in the way": (
        f"{_FETCHER}::test_deleted_foreign_history_does_not_block_follower"
    ),
    "stale incarnations count": f"{_LEADER}::test_fetch_from_before_restart_proves_nothing",
    "takes any answer": f"{_LEADER}::test_answers_to_obsolete_changes_are_ignored",
    "refused is committed": f"{_LEADER}::test_a_refusal_that_changed_nothing_restores_the_isr",
    "keeps the watermark when it cuts": f"{_FOLLOWER}::test_watermark_follows_leader_up_to_own_end",
    "start keeps the watermark": f"{_FOLLOWER}::test_discarded_log_begins_at_leaders_start",
    "takes answers of ended epochs": f"{_FETCH_CLIENT}::test_answer_belongs_to_epoch_of_its_request",
    "ends while it checks": f"{_FETCHER}::test_fetcher_survives_check_of_only_log",
    "out of range begins anew": (
        f"{_FETCHER}::test_follower_above_leaders_end_truncates_and_reports"
    ),
    "a flush survives a truncation": f"{_FAULTS}::test_truncation_during_flush_lowers_the_flushed_offset",
    "deletion forgets the log": f"{_REGISTRY}::test_reassigned_partition_is_deleted_here",
}
