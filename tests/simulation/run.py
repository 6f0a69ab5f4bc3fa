"""Runs seeds of the quorum simulation: `python -m tests.simulation.run --seeds N --start S`, or tells one: `--seed S`.

Prints what was met and tested, what never was, and the seed of the first failure. Exit status 1 on a violation.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback
from collections import Counter

from tests.simulation.world import Result, World, run_seed

# What must have had something to say, and what must have happened, for runs to be worth their time.
INVARIANTS = (
    *(
        "R1",
        "R1 on disk",
        "R2",
        "R2 sent",
        "R3",
        "R3 vote file",
        "R3 start",
        "R4",
        "R5",
        "R5 acked",
        "R6",
    ),
    *("R7", "R8", "R9", "R9 image", "R10", "R10 leader outside", "R11", "R12", "R14", "R15"),
    *("R15 repaired", "C1", "C2", "C3", "C3 same incarnation", "C3 old incarnation", "C3 answer"),
    *("C4", "C4 no leader", "C5", "ack", "hostile", "hostile answer", "hostile flood"),
)
SOMETIMES = (
    *("crash", "clog", "partition", "message lost", "duplication", "false gone", "upgrade"),
    *(
        "voters changed",
        "voters refused",
        "bit flip",
        "damage repaired",
        "clock jump",
        "hostile",
        "hostile answer",
    ),
    *("bit flip in snapshot", "bit flip in vote file", "refused to start", "damaged answer"),
    *("torn write", "transaction aborted", "snapshot fetched", "truncation", "flood"),
    *("controller epoch", "controlled shutdown", "ISR changed", "ISR refused"),
)


def run_many(seeds: range, *, quiet: bool = False, **options: float) -> list[Result]:
    results = []
    for seed in seeds:
        results.append(run_seed(seed, **options))
        if not quiet and len(results) % 200 == 0:
            print(f"… {len(results)} seeds", flush=True)
    return results


def never(results: list[Result]) -> list[str]:
    """Invariants that no counted run evaluated, and things that happened in none."""
    counted = [result for result in results if result.made_progress]
    evaluated = {name for result in counted for name in result.evaluations}
    happened = {name for result in counted for name in result.faults}
    return [name for name in INVARIANTS if name not in evaluated] + [
        name for name in SOMETIMES if name not in happened
    ]


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
        f"{len(results)} seeds run, {sum(r.events for r in results)} events, "
        f"{sum(r.seconds for r in results):.0f} simulated seconds",
        f"acked {sum(r.acked for r in counted)} batches, {sum(r.epochs for r in counted)} epochs",
        "faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())),
        "evaluated: " + ", ".join(f"{name} {count}" for name, count in sorted(evaluations.items())),
        "never: " + (", ".join(never(results)) or "nothing"),
    ]
    return "\n".join(lines)


def tell(seed: int) -> int:
    """One seed as a transcript, to the end or to the violation."""
    world = World(seed)
    world.trace = []
    try:
        world.run()
    except Exception as failure:  # noqa: BLE001 - what went wrong is the last line
        world.trace.append(f"{world.now:9.4f} {type(failure).__name__}: {failure}")
        print("\n".join(world.trace))
        return 1
    print("\n".join(world.trace))
    return 0


def spare_the_collector() -> None:
    """What was imported stays, and a world is one knot that becomes garbage as a whole: looking for some of it often finds nothing."""
    gc.freeze()
    gc.set_threshold(10_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one, told line by line")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        return tell(arguments.seed)
    spare_the_collector()
    began = time.process_time()
    try:
        results = run_many(range(arguments.start, arguments.start + arguments.seeds))
    except Exception:  # noqa: BLE001 - a failed seed is the result
        traceback.print_exc()
        return 1
    print(summary(results))
    seconds = time.process_time() - began
    rate = sum(result.seconds for result in results) / seconds
    print(f"{seconds:.1f} s of one core, {rate:.0f} simulated seconds a second a core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
