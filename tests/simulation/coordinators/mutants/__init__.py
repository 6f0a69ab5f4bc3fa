"""Bugs planted in the coordinators and in the layers below: a seed must find each one, unless `ELSEWHERE` names a test
that does.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.coordinators.mutants.compaction import COMPACTION
from tests.simulation.coordinators.mutants.groups import GROUPS
from tests.simulation.coordinators.mutants.shards import SHARDS
from tests.simulation.coordinators.mutants.transactions import TRANSACTIONS
from tests.simulation.coordinators.world import run_seed
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants import PARTITIONS

# Rules of the partition layer: leader epochs, watermarks, ISR, and the view of read_committed.
BENEATH = (
    *("epoch start not recorded", "joins below the watermark", "acks wait for no replica"),
    *("counts what is not flushed", "too few replicas commit", "keeps what diverges"),
    *("acks when the epoch ends", "watermark begins at the end", "cuts to the watermark"),
    *(
        "append is reported before its flush",
        "reads above the watermark",
        "read_committed reads all",
    ),
    *(
        "open transactions are stable",
        "markers count at once",
        "aborted transactions are not listed",
    ),
    *("duplicates are appended", "out-of-sync replica is elected", "epochs survive a truncation"),
)
# Rules of coordinators that may be the first to detect a bug in the layers below.
NOTICED = ("G1", "G2", "G3", "G4", "G5", "T1", "T3", "T5", "T6", "T7", "T8", "T10", "I1", "I4")
_ROUGH = {"crash_every": 0.4, "power_cut": 0.5, "delay_max": 0.1, "balance_every": 0.5}

# Tests of the rules, for bugs that few or no seeds find. `./dev simulate --mutants --coordinators` runs
# them with the bug planted, if no seed has found it.
_MARKERS = "tests/broker/handlers/test_write_txn_markers.py"
_TRANSCRIPTS = "tests/broker/transactions/test_transcripts.py"
_STAGES = "tests/broker/producing/test_stages.py"
_LOADED = "tests/broker/coordination/test_transactions.py"
_OFFSETS = "tests/broker/groups/test_offsets.py"
_SYNCS = "tests/broker/handlers/test_sync_group.py"
_REGISTRY = "tests/broker/partitions/test_registry_rules.py"
_PRODUCERS = "tests/log/producers/test_state.py"
_ELECTIONS = "tests/quorum/controller/partitions/test_broker_changes.py"
_EPOCHS = "tests/log/disk/test_leader_epochs.py"
_HEARTBEATS = "tests/broker/handlers/test_heartbeat.py"
_BEGINS = "tests/broker/partitions/test_leader_epochs.py"
_STABLE = "tests/log/partitions/test_transactions.py"
ELSEWHERE = {
    "heartbeats of old generations": f"{_HEARTBEATS}::test_every_version_checks_the_generation",
    "epoch start not recorded": f"{_BEGINS}::test_leader_epoch_begins_at_log_end",
    "markers count at once": f"{_STABLE}::test_log_matches_full_reader_on_transactions",
    "markers of old coordinators": f"{_MARKERS}::test_stale_coordinators_and_epochs_are_refused",
    "markers of any epoch": f"{_MARKERS}::test_stale_coordinators_and_epochs_are_refused",
    "new coordinator aborts decided transactions": f"{_TRANSCRIPTS}::test_transcript_is_reproduced[takeover]",
    "late EndTxn ends the next transaction": f"{_TRANSCRIPTS}::test_transcript_is_reproduced[version_2]",
    "verification outlives a marker": f"{_STAGES}::test_marker_before_append_voids_verification",
    "committed records are not loaded": f"{_LOADED}::test_marker_completes_the_transaction",
    "open transactions are not loaded": f"{_LOADED}::test_marker_completes_writes_of_earlier_epoch",
    "old generations commit": f"{_OFFSETS}::test_commit_needs_current_generation_and_member",
    "syncs of old generations": f"{_SYNCS}::test_invalid_sync_is_refused",
    "cuts to the watermark": (
        f"{_REGISTRY}::test_leader_change_keeps_records_above_known_watermark"
    ),
    "duplicates are appended": f"{_PRODUCERS}::test_last_five_batches_are_recognized",
    "out-of-sync replica is elected": f"{_ELECTIONS}::test_out_of_sync_replica_is_not_elected",
    "epochs survive a truncation": f"{_EPOCHS}::test_epochs_equal_naive_twin",
}

COORDINATORS = (
    *(
        Mutant(name, patch, expected, {"emphasis": emphasis}, run_seed)
        for name, patch, expected, emphasis in (*TRANSACTIONS, *SHARDS, *GROUPS, *COMPACTION)
    ),
    *(
        Mutant(
            partition.name,
            partition.patch,
            (*partition.expected, *NOTICED),
            {"emphasis": dict(_ROUGH)},
            run_seed,
        )
        for partition in PARTITIONS
        if partition.name in BENEATH
    ),
)


def named(name: str) -> Any:
    return next(coordinator for coordinator in COORDINATORS if coordinator.name == name)
