"""Bugs planted in the partition layer: each must be found by some seed, or `ELSEWHERE` says why it is not."""

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

# What a bug needs to be met, where few seeds have it: rules and faults of the run.
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
# A source that is cut while it is copied; a copy whose source is away, of a broker that was alone in sync.
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
    *(_mutant(*one) for one in (*LEADERS, *FOLLOWERS, *READING, *LOGS, *FLUSHES, *CONTROLLERS)),
    *(_of_storage(*one) for one in (*MOVES, *DIRECTORIES)),
)

# The tests that hold the rule, of those that few seeds find or none. `./dev simulate --mutants --partitions` runs them
# with the bug planted, where no seed has found it.
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
        "tests/broker/background/test_directory_moves.py::test_what_was_read_while_the_source_was_cut_is_not_copied"
    ),
    "a failed directory hides the others": (
        f"{_FAILED}::test_a_topic_is_made_again_while_the_directory_of_its_namesake_is_offline"
    ),
    "copies alone are complete": (
        f"{_UNFINISHED}::test_a_copy_that_may_be_a_part_is_left_while_its_source_may_be_away"
    ),
    "a retry asks for nobody": f"{_PROPOSALS}::test_what_the_controller_cannot_be_asked_is_asked_again_after_a_pause",
    "passes over the batch that straddles": (
        f"{_EPOCHS}::test_a_follower_takes_the_batch_in_which_the_leader_s_log_starts"
    ),
    "looks without pause": f"{_FETCHER}::test_one_that_is_due_again_waits_for_the_flush_of_another",
    "producers survive a truncation": f"{_PRODUCERS}::test_the_state_is_a_function_of_the_log",
    "joins with another history": (
        f"{_ISR}::test_a_follower_of_another_history_joins_when_it_has_dropped_what_the_leader_deleted"
    ),
    "deleted records are in the way": (
        f"{_FETCHER}::test_records_of_another_history_that_the_leader_has_deleted_are_in_nobody_s_way"
    ),
    "stale incarnations count": f"{_LEADER}::test_a_fetch_that_waited_from_before_the_follower_s_restart_says_nothing",
    "takes any answer": f"{_LEADER}::test_answers_to_what_is_no_longer_wanted_are_ignored",
    "refused is committed": f"{_LEADER}::test_a_refusal_that_changed_nothing_restores_the_isr",
    "keeps the watermark when it cuts": f"{_FOLLOWER}::test_the_watermark_follows_the_leader_s_as_far_as_the_log_goes",
    "start keeps the watermark": f"{_FOLLOWER}::test_a_log_thrown_away_begins_where_the_leader_s_does",
    "takes answers of ended epochs": f"{_FETCH_CLIENT}::test_an_answer_is_for_whom_its_request_asked",
    "ends while it checks": f"{_FETCHER}::test_a_fetcher_lasts_while_the_log_of_its_only_partition_is_checked",
    "out of range begins anew": (
        f"{_FETCHER}::test_out_of_range_above_the_leader_s_end_it_is_cut_to_it_and_that_is_told"
    ),
    "a flush survives a truncation": f"{_FAULTS}::test_truncation_during_flush_lowers_the_flushed_offset",
    "deletion forgets the log": f"{_REGISTRY}::test_a_partition_that_moves_to_others_is_deleted_here",
}
