"""Lets a log live through random operations, and crashes it at every file operation: `python -m tests.log.crash
[--seeds N] [--start S] [--prefixes all|sample] [--mutants]`.

Prints the number of attempts. The exit status is 1 if a record was lost, changed or invented, or a planted bug went
unnoticed.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.log.crash.damage import try_damages
from tests.log.crash.mutants import MUTANTS, hunt
from tests.log.crash.run import Tally, run_seed

SAMPLE = 0.1
FAILURES_SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many lives")
    parser.add_argument("--start", type=int, default=1, help="the first seed")
    parser.add_argument("--prefixes", choices=["all", "sample"], default="sample")
    parser.add_argument("--mutants", action="store_true", help="plant bugs instead")
    arguments = parser.parse_args()
    logging.disable()  # every truncation is logged
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        if arguments.mutants:
            return report_survivors(root)
        tally = Tally()
        for seed in range(arguments.start, arguments.start + arguments.seeds):
            share = 1.0 if arguments.prefixes == "all" else SAMPLE
            run_seed(seed, root, tally, share=share)
        damaged, failures = try_damages(root)
    failures += tally.failures
    styles = ", ".join(
        f"{style.name.lower()} {n}"
        for style, n in sorted(tally.by_style.items(), key=lambda s: s[0].name)
    )
    print(f"{tally.lives} lives of {tally.steps} steps and {tally.operations} file operations")
    print(f"{tally.prefixes} crash prefixes, {tally.states} states of the disk recovered: {styles}")
    print(
        f"{sum(damaged.values())} damaged files: "
        + ", ".join(f"{k} {n}" for k, n in sorted(damaged.items()))
    )
    for failure in failures[:FAILURES_SHOWN]:
        print("FAILED:", failure)
    print(f"{len(failures)} failures, {time.perf_counter() - began:.1f} s")
    return 1 if failures else 0


def report_survivors(root: Path) -> int:
    survived = 0
    for name, how in hunt(root):
        survived += how is None
        print(f"SURVIVED  {name}" if how is None else f"killed    {name}: {how}", flush=True)
    print(f"{len(MUTANTS) - survived} of {len(MUTANTS)} planted bugs found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
