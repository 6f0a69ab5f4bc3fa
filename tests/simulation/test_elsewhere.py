"""The tests of planted bugs that few or no seeds find: each must fail with its bug."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

from tests.checks import check_each
from tests.simulation.coordinators.mutants import COORDINATORS, ELSEWHERE
from tests.simulation.mutants import MUTANTS
from tests.simulation.mutants.mutant import Mutant
from tests.simulation.partitions.mutants import PARTITIONS
from tests.simulation.shares.mutants import SHARES


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation.mutants.elsewhere", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow(seconds=15)
def test_bugs_that_seeds_miss_are_killed() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"killed"}


@pytest.mark.slow
def test_passing_or_missing_test_kills_nothing() -> None:
    name = "duplicates are appended"
    file, _, _ = ELSEWHERE[name].partition("::")
    done = run(
        name, ELSEWHERE[name], f"{file}::test_idle_producer_expires", "tests/no_such_test.py"
    )
    verdicts = [line.split()[0] for line in done.stdout.splitlines()]
    assert verdicts == ["killed", "SURVIVED", "SURVIVED"]
    assert done.returncode == 1


def test_planted_bugs_fit_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each replacement has the signature of its function; otherwise a crash would be found instead of the bug."""
    replaced: list[tuple[Any, Any]] = []
    real = mock.patch.object

    def patch(target: Any, name: str, new: Any = mock.DEFAULT, **options: Any) -> Any:
        replaced.append((inspect.getattr_static(target, name), new))
        return real(target, name, new, **options)

    def check(mutant: Mutant) -> None:
        replaced.clear()
        with mutant.patch():
            for old, new in replaced:
                assert_takes_arguments(old, new)

    monkeypatch.setattr(mock.patch, "object", patch)
    check_each((*MUTANTS, *PARTITIONS, *COORDINATORS, *SHARES), check)


def assert_takes_arguments(old: Any, new: Any) -> None:
    """Binds all arguments of `old` to `new`: by position where `old` permits it, else by name."""
    old, new = inspect.unwrap(getattr(old, "fget", old)), getattr(new, "fget", new)
    old = getattr(old, "__func__", old)
    if not inspect.isfunction(new) or not inspect.isfunction(old):
        return
    parameters = inspect.signature(old).parameters.values()
    by_name = {item.name: item for item in parameters if item.kind is item.KEYWORD_ONLY}
    by_position = [
        item
        for item in parameters
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
    ]
    inspect.signature(new).bind(*by_position, **by_name)
