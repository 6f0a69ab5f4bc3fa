"""`./dev mutate FOLDER ...`: checks whether a test covers each rule of a folder. Fails if a mutant survives that
`survivors.toml` does not justify.

FOLDER is a folder or a file of the product; `rooms.py` names the tests that run. `--every K` tries every K-th mutant,
`--first N` starts at the N-th (for another sample), and `--only TEXT` tries those whose name contains TEXT. A whole
folder is quickest in two runs: the first with the folder's own tests (`--tests`) and its output saved to a file, the
second with all tests and the survivors of the first (`--again FILE`).
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation import survivors
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.rooms import belonging_to, imported
from tests.mutation.running import (
    NOT_RUN,
    PATIENCE_SECONDS,
    SECONDS_OF_MUTANT,
    SURVIVED,
    Mutation,
)

# Other processes run the unmutated code, and the duration of steps is not tested here.
NOT_WITH = ("cluster", "zookeeper", "spark", "interop")
NOT_TESTS = ["tests/broker/test_slow_steps.py"]


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    rooms = {room: _mutants_in(imported(Path(room))) for room in options.rooms}
    mutants = [mutant for of_room in rooms.values() for mutant in of_room]
    chosen = [mutant for mutant in mutants if options.only in mutant.name]
    chosen = chosen[options.first :: options.every]
    entries = survivors.read(options.survivors)
    if options.again is not None:
        again = _survivors_in(options.again)
        chosen = [entry for entry in chosen if entry.name in again]
    if options.argued:
        argued = {name for entry in entries for name in entry.names()}
        chosen = [entry for entry in chosen if entry.name in argued]
    outcomes: dict[str, str] = {}
    began = time.monotonic()

    def tell(mutant: Mutant, outcome: str, killer: str, seconds: float) -> None:
        outcomes[mutant.name] = outcome
        if options.verbose or outcome in (SURVIVED, NOT_RUN):
            print(f"{outcome:9} {seconds:5.1f} s  {mutant.name}  {killer}", flush=True)

    mutation = Mutation(chosen, tell, options.patience, options.seconds)
    status = _run_pytest(mutation, options.tests or belonging_to(options.rooms), options.marks)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return status
    for name in mutation.left_out:
        print(f"left out, it fails without a mutant: {name}")
    for room, of_room in rooms.items():
        _print_row(room, Counter(outcomes.get(entry.name, NOT_RUN) for entry in of_room))
    verdict = survivors.judge(mutants, outcomes, entries)
    print(f"{len(verdict.argued)} survivors are argued for; {time.monotonic() - began:.0f} s")
    for name in verdict.killed:
        print(f"argued for, but killed: {name}")
    for name in verdict.gone:
        print(f"argued for, but gone: {name}")
    for name in verdict.unargued:
        print(f"survivor: {name}")
    return 1 if verdict.unargued else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__)
    parser.add_argument("rooms", nargs="+", metavar="FOLDER")
    parser.add_argument("--every", type=int, default=1, metavar="K")
    parser.add_argument("--first", type=int, default=0, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument(
        "--again", type=Path, metavar="FILE", help="only what survived the run that printed FILE"
    )
    parser.add_argument("--argued", action="store_true", help="try what is argued for alone")
    parser.add_argument("--tests", action="append", metavar="PATH")
    parser.add_argument(
        "--with",
        dest="marks",
        action="append",
        default=[],
        choices=NOT_WITH,
        metavar="MARK",
        help="tests marked so too, slowly: zookeeper for the mirror, which runs in the test's process",
    )
    parser.add_argument("--survivors", type=Path, default=survivors.ARGUED, metavar="FILE")
    parser.add_argument("--patience", type=int, default=PATIENCE_SECONDS, metavar="SECONDS")
    parser.add_argument(
        "--seconds",
        type=int,
        default=SECONDS_OF_MUTANT,
        metavar="SECONDS",
        help="the CPU time that the tests of one mutant may take, as they were traced",
    )
    parser.add_argument("--verbose", action="store_true", help="tell of each mutant what kills it")
    return parser.parse_args(arguments)


def _survivors_in(output: Path) -> set[str]:
    lines = output.read_text().splitlines()
    return {line.partition(" s  ")[2].rstrip() for line in lines if line.startswith(SURVIVED)}


def _mutants_in(room: Path) -> list[Mutant]:
    paths = [room] if room.is_file() else sorted(room.rglob("*.py"))
    if not paths:
        raise SystemExit(f"no Python file in {room}")
    return [
        item for path in paths for item in mutants_of(path, ".".join(path.with_suffix("").parts))
    ]


def _run_pytest(mutation: Mutation, tests: list[str], marks: list[str]) -> int:
    place = tempfile.mkdtemp(prefix="mutation-")
    os.environ["TMPDIR"] = place
    ignored = [f"--ignore={test}" for test in NOT_TESTS]
    own = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"]
    # The operators import the product; pytest rewrites the assertions of its modules if its plugin is installed.
    own += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    own += ["-m", " and ".join(f"not {item}" for item in NOT_WITH if item not in marks)]
    try:
        return pytest.main([*own, *ignored, f"--basetemp={place}/tests", *tests], [mutation])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _print_row(room: str, count: Counter[str]) -> None:
    run = sum(count.values()) - count[NOT_RUN]
    killed = run - count[SURVIVED]
    share = f"{100 * killed / run:.1f} %" if run else "-"
    print(
        f"{room}: {run} mutants, {killed} killed ({share}), {count[SURVIVED]} survived, {count[NOT_RUN]} not run"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
