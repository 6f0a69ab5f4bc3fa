"""Runs seeds of the quorum simulation: `python -m tests.simulation.run --seeds N --start S`.

Prints what was met and tested, and the seed of the first failure. Exit status 1 on a violation.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.simulation.world import Result, run_seed


def run_many(seeds: range, *, quiet: bool = False) -> list[Result]:
    results = []
    for seed in seeds:
        results.append(run_seed(seed))
        if not quiet and len(results) % 200 == 0:
            print(f"… {len(results)} seeds", flush=True)
    return results


def summary(results: list[Result]) -> str:
    """What the runs were worth; those without progress or faults count zero."""
    counted = [result for result in results if result.made_progress]
    faults: Counter[str] = Counter()
    evaluations: Counter[str] = Counter()
    for result in counted:
        faults += result.faults
        evaluations += result.evaluations
    lines = [
        f"{len(counted)} of {len(results)} runs count (progress and at least one fault)",
        f"acked {sum(r.acked for r in counted)} batches, {sum(r.epochs for r in counted)} epochs, "
        f"{sum(r.events for r in counted)} events",
        "faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())),
        "evaluated: " + ", ".join(f"{name} {count}" for name, count in sorted(evaluations.items())),
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=1)
    arguments = parser.parse_args()
    began = time.perf_counter()
    try:
        results = run_many(range(arguments.start, arguments.start + arguments.seeds))
    except Exception:  # noqa: BLE001 - a failed seed is the result
        traceback.print_exc()
        return 1
    print(summary(results))
    print(f"{time.perf_counter() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
