"""Bugs planted in the partition layer: each must be found by some seed, or `ELSEWHERE` says why it is not."""

from __future__ import annotations

from typing import Any

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants.controllers import CONTROLLERS
from tests.simulation.partitions.mutants.followers import FOLLOWERS
from tests.simulation.partitions.mutants.leaders import LEADERS
from tests.simulation.partitions.mutants.logs import LOGS
from tests.simulation.partitions.mutants.reading import READING
from tests.simulation.partitions.world import run_seed

# What a bug needs to be met, where few seeds have it: rules and faults of the run.
_LATE = {"delay_max": 0.4, "balance_every": 0.4, "isolate_every": 0.6, "min_isr": 1}
_WIPES = {"wipe": 1.0, "crash_every": 0.5, "elr": True, "min_isr": 2, "factor": 3}
EMPHASIS: dict[str, dict[str, Any]] = {
    "watermark of the namesake": {"recreate_every": 0.6, "crash_every": 0.4, "power_cut": 1.0},
    "a namesake's log is opened": {"recreate_every": 0.6, "crash_every": 0.4},
    "deletion forgets the log": {"recreate_every": 0.5},
    "stale incarnations count": {**_WIPES, "delay_max": 0.4},
    "emptied disks lead": _WIPES,
    "emptied disks stay in sync": _WIPES,
    "emptied disks stay eligible": _WIPES,
    "position never goes back": _WIPES,
    "old proposals are accepted": {"partition_every": 0.3, "crash_every": 0.5, "delay_max": 0.4},
    "refused is committed": {"crash_every": 0.3, "delay_max": 0.4},
    "a flush survives a truncation": {**_LATE, "slow_flush": 0.9},
    "one answer is enough": _LATE,
    "takes answers of ended epochs": _LATE,
    "ends while it checks": {"crash_every": 0.4, "power_cut": 1.0, "reassign_every": 0.3},
    "joins with another history": {**_LATE, "delete_records_every": 0.3},
    "deleted records are in the way": {**_LATE, "delete_records_every": 0.3},
    "retention passes the watermark": {"retention_bytes": 300, "segment_bytes": 200, **_LATE},
    "all that leave are eligible": {"elr": True, "min_isr": 1, "factor": 3, "isolate_every": 0.5},
}


def _mutant(name: str, patch: Any, expected: tuple[str, ...]) -> Mutant:
    options = {"emphasis": EMPHASIS[name]} if name in EMPHASIS else {}
    return Mutant(name, patch, expected, options, run_seed)


PARTITIONS = tuple(_mutant(*one) for one in (*LEADERS, *FOLLOWERS, *READING, *LOGS, *CONTROLLERS))

# Those that no seed has found, and the tests that hold the rule.
_FOLLOWER, _FETCHER = "tests/broker/partitions/test_follower_rules.py", "tests/broker/replication"
ELSEWHERE = {
    "stale incarnations count": "tests/broker/handlers/test_fetch.py",
    "takes any answer": "one request is under way at a time; tests/broker/partitions/test_leader_rules.py",
    "old proposals are accepted": "tests/quorum/controller",
    "refused is committed": "tests/broker/partitions/test_leader_rules.py",
    "one answer is enough": _FOLLOWER,
    "keeps the watermark when it cuts": f"nothing committed is cut here; {_FOLLOWER}",
    "takes answers of ended epochs": f"{_FETCHER}/test_fetcher_rules.py",
    "a flush survives a truncation": "tests/log/partitions",
}
