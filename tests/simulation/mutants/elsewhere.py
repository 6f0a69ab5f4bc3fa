"""Whether a targeted test is there, and fails with a planted bug.

`python -m tests.simulation.mutants.elsewhere NAME TEST ...` has exit status `KILLED` if a test fails.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.simulation.coordinators.mutants import COORDINATORS
from tests.simulation.partitions.mutants import PARTITIONS

# None of Python's own: what ends with an exception before a test has run, has status 1, as pytest's failed tests have.
KILLED = 77
ROOT = Path(__file__).parents[3]


def is_killed_by(name: str, test: str) -> bool:
    """Runs `test`, a node id of pytest, in a process of its own, in which the bug called `name` is planted."""
    command = [sys.executable, "-m", "tests.simulation.mutants.elsewhere", name, test]
    status = subprocess.run(command, capture_output=True, check=False).returncode
    return status == KILLED


def missing_tests(elsewhere: Mapping[str, str]) -> list[str]:
    """Missing ones of the tests that hold a rule if no seed does: a renamed one would kill nothing."""
    missing = []
    for test in elsewhere.values():
        file, _, name = test.partition("::")
        if f"def {name.partition('[')[0]}(" not in (ROOT / file).read_text():
            missing.append(test)
    return missing


def main(name: str, *tests: str) -> int:
    mutant = next(entry for entry in (*PARTITIONS, *COORDINATORS) if entry.name == name)
    # If the package has plugins of pytest, it warns that the modules imported by the mutants can no longer be
    # rewritten.
    quiet = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
    with mutant.patch():
        status = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *quiet, *tests])
    return KILLED if status == pytest.ExitCode.TESTS_FAILED else int(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
