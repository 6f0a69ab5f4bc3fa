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
    "watermark of a namesake is kept": {
        "recreate_every": 0.6,
        "crash_every": 0.4,
        "power_cut": 1.0,
    },
    "a namesake's log is opened": {"recreate_every": 0.6, "crash_every": 0.4},
    "stale incarnations count": {
        **_WIPES,
        "power_cut": 1.0,
        "slow_every": 0.2,
        "delay_max": 0.01,
    },
    "emptied disk leads": _WIPES,
    "emptied disks stay in sync": _WIPES,
    "emptied disks stay eligible": _WIPES,
    "position never goes back": _WIPES,
    "any ISR answer is accepted": {
        "crash_every": 0.2,
        "balance_every": 0.0,
        "delay_max": 0.4,
        "min_isr": 1,
        "brokers": 5,
        "factor": 5,
    },
    "fetcher polls without pause": {
        "partitions": 4,
        "slow_flush": 1.0,
        "reassign_every": 0.2,
        "balance_every": 0.2,
        "kernel_takes": 0.0,
    },
    "old proposals are accepted": {
        "partition_every": 0.3,
        "crash_every": 0.0,
        "delay_max": 0.1,
        "min_isr": 1,
        "factor": 3,
    },
    "refused ISR is committed": {"crash_every": 0.3, "delay_max": 0.4},
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
    "one answer ends the truncation": {**_LATE, "reassign_every": 0.3},
    "divergence of an unknown epoch": {
        "stop_every": 0.4,
        "balance_every": 0.2,
        "delay_max": 0.1,
        "producers": 3,
        "min_isr": 1,
        "factor": 3,
    },
    "flush is reported when it begins": {**_POWER, "kernel_takes": 1.0, "min_isr": 1},
    "later appends count as flushed": {**_POWER, "kernel_takes": 1.0, "min_isr": 1},
    "kernel errors are ignored": {**_DISKS, "kernel_takes": 1.0},
    "failed flush is repeated": {**_DISKS, "kernel_takes": 0.0},
    "the clean marker stays": {"stop_every": 0.3, **_POWER, "min_isr": 1},
    "recovery point is the end": {**_POWER, "segment_bytes": 200},
    "answers of ended epochs are accepted": _LATE,
    "fetcher ends during log check": {"crash_every": 0.4, "power_cut": 1.0, "reassign_every": 0.3},
    "joins with another history": {**_LATE, "delete_records_every": 0.3},
    "deleted records block the follower": {**_LATE, "delete_records_every": 0.3},
    "retention passes the watermark": {"retention_bytes": 300, "segment_bytes": 200, **_LATE},
    "every leaving replica is eligible": {
        "elr": True,
        "min_isr": 1,
        "factor": 3,
        "isolate_every": 0.5,
    },
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
# The source is truncated while it is copied; the source of a copy is missing, on the only broker in sync.
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
    "source of a move goes first": {**_MOVES, **_FAILS},
    "truncated records are copied": {**_CUT, "even_batches": True},
    "longer of two logs stays": {**_REMADE, "crash_every": 0.3},
    "shorter of two logs stays": {**_AWAY, "move_every": 0.05},
    "copies without source are complete": _PARTS,
    "partial copy counts as complete": {
        **_PARTS,
        "away": 0.0,
        "dies": 0.0,
        "crash_every": 0.0,
        "directory_fails_every": 0.05,
        "metadata_fails": 0.0,
    },
    "abandoned move continues": {**_MOVES, "slow_thread": 0.5},
    "missing log is created empty": _AWAY,
    "a failed directory hides the others": {
        **_FAILS,
        "directories": 3,
        "directory_fails_every": 0.25,
        "recreate_every": 0.7,
        **dict.fromkeys(("crash_every", "stop_every", "reassign_every", "isolate_every"), 0.0),
        **dict.fromkeys(("disk_fails_every", "alone_every", "metadata_fails"), 0.0),
        **dict.fromkeys(("away", "damage", "slow_thread"), 0.0),
    },
    "lost replica is not reported": {"damage": 1.0, "crash_every": 0.4, "elr": False},
    "a replica that lies elsewhere is not claimed": {
        "damage": 1.0,
        "crash_every": 0.3,
        "elr": False,
        "min_isr": 1,
    },
    "disk error counts as transient": {
        **_FAILS,
        **_POWER,
        "directory_fails_every": 0.15,
    },
    "copies are not flushed": _MOVES,
    "purged before the copy is durable": _MOVES,
    "the name of a copy is not synced": {**_MOVES, "dies": 1.0, "directory_fails_every": 0.3},
    "move ends before it has copied everything": _MOVES,
    "copies are not truncated with the source": {**_MOVES, **_LATE, "crash_every": 0.0},
    "the start is not carried": {**_MOVES, "delete_records_every": 0.2},
    "epochs are not carried": {**_MOVES, "balance_every": 0.4},
    "a copy of another topic goes on": {**_MOVES, "recreate_every": 0.5},
    "offline directories are not reported": _FAILS,
    "failed syncs are forgotten": {**_POWER, "disk_fails_every": 0.2, "elr": False},
    "failures are not noticed": _FAILS,
    "damaged topic id counts as foreign": {"damage": 1.0, "crash_every": 0.4, "elr": False},
    "offsets of a namesake stay": {**_REMADE, "crash_every": 0.4},
    "strays stay": {"reassign_every": 0.4, "crash_every": 0.4, "away": 0.6},
}


def _mutant(name: str, patch: Any, expected: tuple[str, ...]) -> Mutant:
    """Returns a mutant for brokers with one directory, as when the bug was first hunted."""
    emphasis = {"directories": 1, **EMPHASIS.get(name, {})}
    return Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)


def _of_storage(name: str, patch: Any, expected: tuple[str, ...]) -> Mutant:
    emphasis = {"directories": 2, **STORAGE.get(name, {})}
    return Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)


PARTITIONS = (
    *(_mutant(*item) for item in (*LEADERS, *FOLLOWERS, *READING, *LOGS, *FLUSHES, *CONTROLLERS)),
    *(_of_storage(*item) for item in (*MOVES, *DIRECTORIES)),
)

# Tests of the rules, for bugs that few or no seeds find. `./dev simulate --mutants --partitions` runs them
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
    "truncated records are copied": (
        "tests/broker/background/test_directory_moves.py::test_data_read_during_source_truncation_is_not_copied"
    ),
    "a failed directory hides the others": (
        f"{_FAILED}::test_topic_is_recreated_while_namesakes_directory_offline"
    ),
    "copies without source are complete": (
        f"{_UNFINISHED}::test_possibly_partial_copy_waits_for_its_source"
    ),
    "retry proposes an empty ISR": f"{_PROPOSALS}::test_unreachable_controller_is_asked_again_after_pause",
    "passes over the batch that straddles": (
        f"{_EPOCHS}::test_follower_takes_batch_containing_leaders_start"
    ),
    "fetcher polls without pause": f"{_FETCHER}::test_due_partition_waits_for_anothers_flush",
    "producers survive a truncation": f"{_PRODUCERS}::test_producer_state_is_a_function_of_log",
    "joins with another history": (
        f"{_ISR}::test_follower_of_another_history_joins_after_truncation"
    ),
    "deleted records block the follower": (
        f"{_FETCHER}::test_deleted_foreign_history_does_not_block_follower"
    ),
    "stale incarnations count": f"{_LEADER}::test_fetch_from_before_restart_proves_nothing",
    "any ISR answer is accepted": f"{_LEADER}::test_answers_to_obsolete_changes_are_ignored",
    "refused ISR is committed": f"{_LEADER}::test_refusal_without_change_restores_the_isr",
    "keeps the watermark when it cuts": f"{_FOLLOWER}::test_watermark_follows_leader_up_to_own_end",
    "start keeps the watermark": f"{_FOLLOWER}::test_discarded_log_begins_at_leaders_start",
    "answers of ended epochs are accepted": f"{_FETCH_CLIENT}::test_answer_belongs_to_epoch_of_its_request",
    "fetcher ends during log check": f"{_FETCHER}::test_fetcher_survives_check_of_only_log",
    "out-of-range follower discards everything": (
        f"{_FETCHER}::test_follower_above_leaders_end_truncates_and_reports"
    ),
    "a flush survives a truncation": f"{_FAULTS}::test_truncation_during_flush_lowers_the_flushed_offset",
    "deletion forgets the log": f"{_REGISTRY}::test_reassigned_partition_is_deleted_here",
}
