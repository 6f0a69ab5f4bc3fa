"""The simulation of coordinators as a test: every rule holds for the seeds, planted bugs are found, and a seed
determines its run.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.coordinators.mutants import COORDINATORS, ELSEWHERE, named
from tests.simulation.coordinators.world import CoordinatorWorld
from tests.simulation.mutants.mutant import hunt
from trimaran.testing import EmbeddedKafka

# Takes a few seconds of one core; `./dev simulate --coordinators N` runs any number of seeds.
SEEDS = 4
# One or two planted bugs of each file, each found within about seven seeds. Other hashes change the run of a seed.
QUICK = (
    *("complete before the markers", "nothing is verified", "serves before it has loaded"),
    *("load stops before the end", "owned partitions are assigned again"),
    "markers go at once",
)
QUICK_SEEDS = 40


@pytest.mark.slow(seconds=10)
def test_rules_hold_for_every_seed() -> None:
    """The seeds run in a separate process, in which sets have the same order as under `./dev simulate`."""
    command = [sys.executable, "-m", "tests.simulation.run", "--coordinators", str(SEEDS)]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{SEEDS} seeds run" in done.stdout


@pytest.fixture(scope="module")
def trace() -> list[str]:
    return trace_of_run()


@pytest.mark.slow
def test_seed_determines_its_run(trace: list[str]) -> None:
    """The same seed gives the same run, event by event."""
    assert len(trace) > 100
    assert trace_of_run() == trace


def test_embedded_broker_in_another_thread_changes_nothing(trace: list[str]) -> None:
    with EmbeddedKafka():
        assert trace_of_run() == trace


def trace_of_run() -> list[str]:
    world = CoordinatorWorld(3, chaos_seconds=1.5)
    world.trace = []
    world.run()
    return world.trace


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_mutant_is_found(name: str) -> None:
    mutant = named(name)
    assert hunt(mutant, QUICK_SEEDS).found in mutant.expected


def test_enough_mutants_exist() -> None:
    names = {mutant.name for mutant in COORDINATORS}
    assert len(names) == len(COORDINATORS) >= 60
    assert ELSEWHERE.keys() <= names
