"""The simulation as a test: seeds hold every invariant, and planted bugs are found."""

from __future__ import annotations

import functools

import pytest

from tests.simulation.checker import Checker, Violation
from tests.simulation.everything import Everything
from tests.simulation.faults import Faults
from tests.simulation.mutants import MUTANTS, SLOW
from tests.simulation.mutants.mutant import SURVIVED, Mutant, Outcome, hunt
from tests.simulation.run import QUORUM
from tests.simulation.world import World, run_seed
from trimaran.quorum.raft import leader_state, leading
from trimaran.quorum.raft.types import InvariantViolated

# Runs are shorter than those of `./dev simulate N`, so that they take ten seconds of one core.
SEEDS, CHAOS_SECONDS = 300, 5.0
# The number of seeds tried for a mutant here; `./dev simulate --mutants` tries 2,000.
MUTANT_SEEDS = 60
QUICK = [mutant for mutant in MUTANTS if mutant.name not in SLOW]


@functools.cache
def found_of(name: str) -> Outcome:
    """Returns the seed that finds a mutant, which several tests need."""
    return hunt(next(mutant for mutant in MUTANTS if mutant.name == name), MUTANT_SEEDS)


# Seeds that once found a bug, in the core or in the checker, are always run.
REGRESSIONS = (424, 771123)


@pytest.mark.slow
def test_seeds_hold_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    results = QUORUM.run_many(range(1, SEEDS + 1), quiet=True, chaos_seconds=CHAOS_SECONDS)
    with capsys.disabled():
        print("\n" + QUORUM.summary(results))
    counted = [result for result in results if result.made_progress]
    assert len(counted) > SEEDS * 0.8, "runs without progress or faults count zero"
    assert QUORUM.never(results) == [], "every invariant had something to say, every fault happened"


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_seed_that_found_a_bug_passes(seed: int) -> None:
    assert run_seed(seed).made_progress


@pytest.mark.parametrize("options", [{}, {"controllers": True}], ids=["log", "controllers"])
def test_seed_determines_its_run(options: dict[str, bool]) -> None:
    """The same seed gives the same run, event by event."""
    first, second = trace_of(World(17, **options)), trace_of(World(17, **options))
    assert len(first) > 300
    assert first == second


def trace_of(world: World) -> list[str]:
    world.trace = []
    world.run()
    return world.trace


def test_failing_seed_is_reported_and_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """The transcript ends with the violation; the note tells how to reproduce it, and the second run is identical."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == "one replica commits")
    found = found_of(mutant.name)
    with mutant.patch():
        with pytest.raises(Violation) as failure:
            run_seed(found.seed)
        transcripts = []
        for _ in range(2):
            assert QUORUM.tell(found.seed) == 1
            transcripts.append(capsys.readouterr().out)
    assert f"./dev simulate --seed {found.seed}" in failure.value.__notes__[0]
    assert transcripts[0] == transcripts[1]
    *lines, last = transcripts[0].splitlines()
    assert last.endswith(f"Violation: {found.reason}")
    assert all(float(line.split()[0]) >= 0 for line in lines), "every line begins with the time"
    assert any("→" in line and "Vote epoch=1" in line for line in lines)


# --- the checker


@pytest.mark.parametrize(("seed", "controllers"), [(2, False), (3, False), (17, False), (3, True)])
def test_full_check_of_good_seeds_finds_nothing(seed: int, controllers: bool) -> None:
    options = {"controllers": controllers, "chaos_seconds": 6.0}
    plain = World(seed, **options).run()
    naive = World(seed, checker_class=Everything, **options).run()
    assert (naive.events, naive.committed) == (plain.events, plain.committed)


@pytest.mark.parametrize(
    "name",
    [
        *("one replica commits", "observers count", "watermark beyond the log", "no fsync"),
        *("snapshot above the watermark", "leads on when voted out", "votes beside a leader"),
        *("torn batches are whole", "fencing forgets the ISRs", "new incarnation keeps the epoch"),
    ],
)
def test_full_check_finds_planted_bug_no_earlier(name: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    found = found_of(mutant.name)
    assert found.found != SURVIVED
    with mutant.patch():
        ends = []
        for checker_class in (Checker, Everything):
            world = World(found.seed, checker_class=checker_class, **mutant.options)
            with pytest.raises((Violation, InvariantViolated)) as failure:
                world.run()
            ends.append((world.events, str(failure.value)))
    assert ends[0] == ends[1]


def test_hostile_peer_exhausts_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are small, so that they are reached; afterwards the quorum continues as before."""
    monkeypatch.setattr(leading, "DEFERRED_MAX", 30)
    monkeypatch.setattr(leading, "DEFERRED_BY_VOTERS_MAX", 10)
    monkeypatch.setattr(leader_state, "OBSERVERS_MAX", 25)
    world = World(1, faults=Faults())
    filled: list[dict[str, tuple[int, int]]] = []

    def flood() -> None:
        for node in world.nodes.values():
            world.hostile.flood(node, 200)
            filled.append(world.hostile.held(node))

    world.at(6.0, flood)
    result = world.run()
    assert result.acked > 20
    full = [held for held in filled if "observers" in held]
    assert [(held["observers"], held["parked fetches"]) for held in full] == [((25, 25), (30, 40))]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", QUICK, ids=lambda mutant: mutant.name)
def test_mutant_is_found(mutant: Mutant) -> None:
    assert found_of(mutant.name).found in mutant.expected


def test_enough_mutants_exist() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
