"""Hunts planted bugs: `python -m tests.simulation.mutants [--partitions | --coordinators | --shares] [--seeds N]
[--only WORD]`; prints each mutant with its killer, and the survivors.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence

from tests.simulation.coordinators.mutants import COORDINATORS
from tests.simulation.coordinators.mutants import ELSEWHERE as NOT_BY_COORDINATORS
from tests.simulation.mutants import MUTANTS, SLOW
from tests.simulation.mutants import elsewhere as targeted
from tests.simulation.mutants.mutant import SURVIVED, Mutant, hunt
from tests.simulation.partitions.mutants import ELSEWHERE, PARTITIONS
from tests.simulation.run import spare_the_collector
from tests.simulation.shares.mutants import ELSEWHERE as NOT_BY_SHARES
from tests.simulation.shares.mutants import SHARES

# As in Kafka and etcd, one survivor in twenty is allowed, but it must be named. Seeds of partitions may miss one in
# ten. A targeted test must kill each mutant that seeds of brokers miss.
KILLED_SHARE = 0.95
PARTITIONS_SHARE = 0.9
SEEDS, SEEDS_OF_PARTITIONS, SEEDS_OF_COORDINATORS = 2000, 300, 100


def _hunted(
    given: argparse.Namespace,
) -> tuple[Sequence[Mutant], Mapping[str, str], float, int]:
    """Returns the bugs, the tests of those that no seed finds, the required share, and the number of seeds."""
    if given.shares:
        found = SHARES, NOT_BY_SHARES, KILLED_SHARE, SEEDS_OF_COORDINATORS
    elif given.coordinators:
        found = COORDINATORS, NOT_BY_COORDINATORS, KILLED_SHARE, SEEDS_OF_COORDINATORS
    elif given.partitions:
        found = PARTITIONS, ELSEWHERE, PARTITIONS_SHARE, SEEDS_OF_PARTITIONS
    else:
        found = MUTANTS, {}, KILLED_SHARE, SEEDS
    return *found[:3], given.seeds or found[3]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", default="")
    parser.add_argument("--partitions", action="store_true", help="bugs of the partition layer")
    parser.add_argument(
        "--coordinators", action="store_true", help="bugs of coordinators, and of what is below"
    )
    parser.add_argument("--shares", action="store_true", help="bugs of share groups")
    given = parser.parse_args()
    every, elsewhere, share, seeds = _hunted(given)
    chosen = [mutant for mutant in every if given.only in mutant.name]
    survivors: list[str] = []
    spare_the_collector()
    for mutant in sorted(chosen, key=lambda mutant: mutant.name in SLOW):
        began = time.process_time()
        found = hunt(mutant, seeds)
        is_killed = found.found in mutant.expected
        if not is_killed:
            survivors.append(mutant.name)
        verdict = "killed" if is_killed else "SURVIVED" if found.found == SURVIVED else "STRANGE"
        seconds = time.process_time() - began
        print(
            f"{verdict:8} {mutant.name}: {found.found}, seed {found.seed}, {seconds:.1f} s"
            + (f" ({found.reason})" if verdict == "STRANGE" else ""),
            flush=True,
        )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed within {seeds} seeds")
    for name in survivors:
        print(f"survivor: {name}")
    is_enough = len(chosen) - len(survivors) >= share * len(chosen)
    if not elsewhere:
        return int(not is_enough)
    held = {name: elsewhere[name] for name in survivors if name in elsewhere}
    left = targeted.survivors(every, held) if held else []
    return int(not is_enough or bool(left) or len(held) < len(survivors))


if __name__ == "__main__":
    sys.exit(main())
