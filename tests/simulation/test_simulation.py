"""The simulation as a test: seeds hold every invariant, and planted bugs are found."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import MUTANTS, SLOW
from tests.simulation.mutants.mutant import Mutant, hunt
from tests.simulation.run import never, run_many, summary
from tests.simulation.world import World, run_seed

# A minute and a half of one core; `./dev simulate N` runs any number.
SEEDS = 1000
# Seeds that a mutant may take here; `./dev simulate --mutants` gives each 2,000.
MUTANT_SEEDS = 60
QUICK = [mutant for mutant in MUTANTS if mutant.name not in SLOW]

# Seeds that found something once, in the core or in the checker, run for ever.
REGRESSIONS = (424,)


@pytest.mark.slow
def test_seeds_hold_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    results = run_many(range(1, SEEDS + 1), quiet=True)
    with capsys.disabled():
        print("\n" + summary(results))
    counted = [result for result in results if result.made_progress]
    assert len(counted) > SEEDS * 0.9, "runs without progress or faults count zero"
    assert never(results) == [], "every invariant had something to say, every fault happened"


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_regression(seed: int) -> None:
    run_seed(seed)


def test_a_seed_is_a_run() -> None:
    """Same seed, same run, event by event."""
    transcripts = []
    for _ in range(2):
        world = World(17)
        world.trace = []
        world.run()
        transcripts.append(world.trace)
    assert len(transcripts[0]) > 500
    assert transcripts[0] == transcripts[1]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_mutant_is_found(mutant: Mutant) -> None:
    assert hunt(mutant, MUTANT_SEEDS).found in mutant.expected


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
