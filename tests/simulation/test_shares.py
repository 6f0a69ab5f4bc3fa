"""The simulation of share groups as a test: every rule holds for the seeds, and a seed determines its run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.shares.world import SharesWorld

# Takes a few seconds of one core; `./dev simulate --shares N` runs any number of seeds.
SEEDS = 4


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
