"""Runs seeds of a simulation: `python -m tests.simulation.run --seeds N --start S`, or prints the transcript of one:
`--seed S`. The simulation is that of the quorum, of `--partitions`, or on top of partitions that of `--coordinators` or
`--shares`. Prints the faults that occurred, the invariants that were evaluated, those that never were, and the seed of
the first failure. The exit status is 1 on a violation.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import traceback

from tests.simulation.coordinators.simulation import COORDINATORS
from tests.simulation.partitions.simulation import PARTITIONS
from tests.simulation.shares.simulation import SHARES
from tests.simulation.simulation import Simulation
from tests.simulation.world import World, run_seed

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

QUORUM = Simulation(World, run_seed, INVARIANTS, SOMETIMES)


def spare_the_collector() -> None:
    """Freezes imported modules, which stay alive, and makes collections rare: a world is one reference cycle, and no
    part of it becomes garbage before its end.
    """
    gc.freeze()
    gc.set_threshold(10_000)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=None, metavar="N")
    parser.add_argument(
        "--partitions", type=int, nargs="?", const=0, metavar="N", help="of partitions, N seeds"
    )
    parser.add_argument(
        "--coordinators", type=int, nargs="?", const=0, metavar="N", help="of coordinators, N seeds"
    )
    parser.add_argument(
        "--shares", type=int, nargs="?", const=0, metavar="N", help="of share groups, N seeds"
    )
    parser.add_argument("--start", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one, told line by line")
    arguments = parser.parse_args()
    simulation = QUORUM if arguments.partitions is None else PARTITIONS
    if arguments.coordinators is not None:
        simulation = COORDINATORS
    if arguments.shares is not None:
        simulation = SHARES
    if arguments.seed is not None:
        return simulation.tell(arguments.seed)
    seeds = arguments.partitions or arguments.coordinators or arguments.shares
    seeds = seeds or arguments.seeds or (1000 if simulation is QUORUM else 200)
    spare_the_collector()
    began = time.process_time()
    try:
        results = simulation.run_many(range(arguments.start, arguments.start + seeds))
    except Exception:  # noqa: BLE001 - a failed seed is the result
        traceback.print_exc()
        return 1
    print(simulation.summary(results))
    seconds = time.process_time() - began
    rate = sum(result.seconds for result in results) / seconds
    print(f"{seconds:.1f} s of one core, {rate:.0f} simulated seconds a second a core")
    return 0


if __name__ == "__main__":
    sys.exit(main())
