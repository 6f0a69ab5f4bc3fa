"""Checks that the tests of those planted bugs that few or no seeds find kill them.

`python -m tests.simulation.mutants.elsewhere` plants each bug of each `ELSEWHERE` and runs its test; the exit status is
0 if every one is killed. With the arguments NAME TEST ... it runs these tests with that bug.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout

import pytest

from tests.simulation.coordinators.mutants import COORDINATORS
from tests.simulation.coordinators.mutants import ELSEWHERE as NOT_BY_COORDINATORS
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants import ELSEWHERE, PARTITIONS
from tests.simulation.shares.mutants import ELSEWHERE as NOT_BY_SHARES
from tests.simulation.shares.mutants import SHARES


def survivors(mutants: Sequence[Mutant], elsewhere: Mapping[str, str]) -> list[str]:
    """Plants each bug of `elsewhere` and runs its test, in this process; returns the bugs that are not killed."""
    by_name = {mutant.name: mutant for mutant in mutants}
    are_sound = run_tests(sorted({*elsewhere.values()})) == pytest.ExitCode.OK
    survived = []
    for name, test in elsewhere.items():
        is_killed = is_killed_by(by_name[name], test, is_sound=are_sound)
        print(f"{'killed' if is_killed else 'SURVIVED':8} {name}: {test}", flush=True)
        if not is_killed:
            survived.append(name)
    return survived


def is_killed_by(mutant: Mutant, test: str, *, is_sound: bool = False) -> bool:
    """Whether `test`, a node id of pytest, passes without the planted bug and fails with it; `is_sound` means that the
    first is known.
    """
    # The test must run without the bug first, because test modules imported with the bug would keep the replaced names.
    if not is_sound and run_tests([test]) != pytest.ExitCode.OK:
        return False
    with mutant.patch():
        return run_tests([test]) == pytest.ExitCode.TESTS_FAILED


def run_tests(tests: Sequence[str]) -> int:
    """Runs tests up to the first failure; returns the exit status of pytest."""
    # pytest warns if the package's plugins can no longer be rewritten because the mutants have imported their modules.
    quiet = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
    # At its end this plugin collects garbage six times, which takes longer than most of these tests.
    without = ("-p", "no:unraisableexception", "-p", "no:cacheprovider")
    with redirect_stdout(io.StringIO()):
        return int(pytest.main(["-q", "-x", *without, *quiet, *tests]))


def main(name: str = "", *tests: str) -> int:
    if name:
        left = [
            test for test in tests if survivors((*PARTITIONS, *COORDINATORS, *SHARES), {name: test})
        ]
    else:
        left = survivors(PARTITIONS, ELSEWHERE) + survivors(COORDINATORS, NOT_BY_COORDINATORS)
        left += survivors(SHARES, NOT_BY_SHARES) if NOT_BY_SHARES else []
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
