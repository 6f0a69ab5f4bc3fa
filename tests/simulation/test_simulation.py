"""The simulation as a test: seeds hold every invariant, and planted bugs are found."""

from __future__ import annotations

import pytest

from quorum.raft.types import InvariantViolated
from tests.simulation.checker import Violation
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.run import run_many, summary
from tests.simulation.world import run_seed

SEEDS = 1000
# Seeds that a mutant may take; the slowest to be found needs about 300.
MUTANT_SEEDS = 1500

INVARIANTS = (
    "R1",
    "R1 on disk",
    "R2",
    "R2 sent",
    "R3",
    "R4",
    "R5",
    "R5 acked",
    "R6",
    "R7",
    "R8",
    "R9",
    "R11",
    "ack",
)

# Seeds that found something once, in the core or in the checker, run for ever.
REGRESSIONS = (424,)


@pytest.mark.slow
def test_a_thousand_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    results = run_many(range(1, SEEDS + 1), quiet=True)
    with capsys.disabled():
        print("\n" + summary(results))
    counted = [result for result in results if result.made_progress]
    assert len(counted) > SEEDS * 0.9, "runs without progress or faults count zero"
    for name in INVARIANTS:
        assert sum(result.evaluations[name] for result in counted) > SEEDS / 10, (
            f"{name} was hardly ever tested"
        )
    faults = {kind for result in counted for kind in result.faults}
    assert faults >= {"crash", "clog", "partition", "message lost", "duplication", "false gone"}


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_regression(seed: int) -> None:
    run_seed(seed)


def test_a_seed_is_a_run() -> None:
    """Same seed, same run, event by event."""
    assert run_seed(17) == run_seed(17)


def first_word_found(mutant: Mutant) -> str:
    """The id of the first invariant that a seed finds violated."""
    with mutant.patch():
        for seed in range(1, MUTANT_SEEDS + 1):
            try:
                run_seed(seed)
            except (Violation, InvariantViolated) as found:
                return str(found).split()[0]
    return "survived"


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_found(mutant: Mutant) -> None:
    assert first_word_found(mutant) in mutant.expected
