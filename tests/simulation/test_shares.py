"""The simulation of share groups as a test: every rule holds for the seeds, planted bugs are found, and a seed
determines its run.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.mutants.mutant import hunt
from tests.simulation.shares.mutants import ELSEWHERE, SHARES, named
from tests.simulation.shares.world import SharesWorld

# Takes a few seconds of one core; `./dev simulate --shares N` runs any number of seeds.
SEEDS = 4
# Planted bugs of the leader and of the coordinators, each found within a few seeds.
QUICK = (
    "start passes unstored changes",
    "record limit is ignored",
    "initializations are not stored",
)
QUICK_SEEDS = 5


@pytest.mark.slow
def test_rules_hold_for_every_seed() -> None:
    """The seeds run in a separate process, in which sets have the same order as under `./dev simulate`."""
    command = [sys.executable, "-m", "tests.simulation.run", "--shares", str(SEEDS)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{SEEDS} seeds run" in done.stdout


@pytest.mark.slow
def test_seed_determines_its_run() -> None:
    """The same seed gives the same run, event by event."""
    first, second = trace_of_run(), trace_of_run()
    assert len(first) > 100
    assert first == second


def trace_of_run() -> list[str]:
    world = SharesWorld(3, chaos_seconds=1.5)
    world.trace = []
    world.run()
    return world.trace


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_mutant_is_found(name: str) -> None:
    mutant = named(name)
    assert hunt(mutant, QUICK_SEEDS).found in mutant.expected


def test_enough_mutants_exist() -> None:
    names = {mutant.name for mutant in SHARES}
    assert len(names) == len(SHARES) >= 30
    assert ELSEWHERE.keys() <= names
