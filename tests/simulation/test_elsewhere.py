"""The tests of planted bugs that few or no seeds find: each must fail with its bug."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.simulation.coordinators.mutants import COORDINATORS, ELSEWHERE
from tests.simulation.mutants import MUTANTS
from tests.simulation.partitions.mutants import PARTITIONS


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.mutants.elsewhere", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow(seconds=60)
def test_bugs_that_seeds_miss_are_killed() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"killed"}


@pytest.mark.slow
def test_passing_and_missing_tests_kill_nothing() -> None:
    name = "duplicates are appended"
    file, _, _ = ELSEWHERE[name].partition("::")
    done = run(name, ELSEWHERE[name], f"{file}::test_expiry", "tests/no_such_test.py")
    verdicts = [line.split()[0] for line in done.stdout.splitlines()]
    assert verdicts == ["killed", "SURVIVED", "SURVIVED"]
    assert done.returncode == 1


def test_every_planted_bug_fits_the_code() -> None:
    """A bug whose class or method has another name now would be found by nothing."""
    for mutant in (*MUTANTS, *PARTITIONS, *COORDINATORS):
        with mutant.patch():
            pass
