"""Hunts planted bugs: `python -m tests.simulation.mutants [--seeds N] [--only WORD]`; prints who was killed by what, and who survived."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.mutants import MUTANTS, SLOW
from tests.simulation.mutants.mutant import SURVIVED, hunt
from tests.simulation.run import spare_the_collector

# Kafka, etcd and others let a simulation pass with a survivor in twenty; so do we, but by name.
KILLED_SHARE = 0.95


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if given.only in mutant.name]
    survivors: list[str] = []
    spare_the_collector()
    for mutant in sorted(chosen, key=lambda mutant: mutant.name in SLOW):
        began = time.process_time()
        found = hunt(mutant, given.seeds)
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
    print(
        f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed within {given.seeds} seeds"
    )
    if survivors:
        print("survivors: " + "; ".join(survivors))
    return int(len(survivors) > (1 - KILLED_SHARE) * len(chosen))


if __name__ == "__main__":
    sys.exit(main())
