"""The simulation of partitions as a test: seeds hold every invariant, planted bugs are found, a seed is a run."""

from __future__ import annotations

import errno
import heapq
import random
from pathlib import Path

import pytest

from tests.simulation.checker import Violation
from tests.simulation.mutants.elsewhere import missing_tests
from tests.simulation.mutants.mutant import SURVIVED, Mutant, hunt
from tests.simulation.partitions.disk import SimDisk
from tests.simulation.partitions.kernel import SimKernel
from tests.simulation.partitions.mutants import ELSEWHERE, EMPHASIS
from tests.simulation.partitions.mutants import PARTITIONS as MUTANTS
from tests.simulation.partitions.simulation import PARTITIONS
from tests.simulation.partitions.world import World

# A few seconds of one core; `./dev simulate --partitions N` runs as many as somebody has time for.
SEEDS = range(1, 11)
# Of these, each is found by one of the first seeds: one of each file.
QUICK = (
    *("waits for nobody", "keeps what diverges", "reads above the watermark"),
    *("epoch start not recorded", "told before it is flushed", "emptied disks lead"),
    "told when the kernel begins",
)
QUICK_SEEDS = 12


@pytest.mark.slow
def test_seeds_hold_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    results = PARTITIONS.run_many(SEEDS, quiet=True)
    with capsys.disabled():
        print("\n" + PARTITIONS.summary(results))
    counted = [result for result in results if result.made_progress]
    assert len(counted) > 0.8 * len(results), "runs without progress or faults count zero"
    missing = [name for name in PARTITIONS.never(results) if name in PARTITIONS.invariants]
    assert missing == [], "every invariant had something to say"


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_mutant_is_found(name: str) -> None:
    mutant = named(name)
    assert hunt(mutant, QUICK_SEEDS).found in mutant.expected


def test_a_leader_that_was_just_started_knows_the_producers_of_deleted_records() -> None:
    """This seed had a batch twice (I1)."""
    assert World(13, emphasis=EMPHASIS["deleted records are in the way"]).run().acked


def named(name: str) -> Mutant:
    return next(one for one in MUTANTS if one.name == name)


def test_there_are_enough_mutants() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 40
    assert ELSEWHERE.keys() <= names
    assert missing_tests(ELSEWHERE) == []
    assert EMPHASIS.keys() <= names


def test_a_seed_is_a_run() -> None:
    """Same seed, same run, event by event."""
    first, second = told(World(4, chaos_seconds=2.0)), told(World(4, chaos_seconds=2.0))
    assert len(first) > 40
    assert first == second


def told(world: World) -> list[str]:
    world.trace = []
    world.run()
    return world.trace


def test_a_failing_seed_is_told_and_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """The transcript ends with what went wrong; the note says how to have it again."""
    mutant = named("waits for nobody")
    found = hunt(mutant, QUICK_SEEDS)
    assert found.found != SURVIVED
    with mutant.patch():
        with pytest.raises(Violation) as failure:
            PARTITIONS.run_seed(found.seed)
        assert PARTITIONS.tell(found.seed) == 1
    assert f"./dev simulate --partitions --seed {found.seed}" in failure.value.__notes__[0]
    *lines, last = capsys.readouterr().out.splitlines()
    assert last.endswith(f"Violation: {found.reason}")
    assert any("Fetch t-0@0 (epoch 0, last -1)" in line for line in lines)


# --- the disk


def disk_with(content: bytes, *, flush: bool, flush_name: bool) -> SimDisk:
    disk = SimDisk(lambda: 0)
    disk.mkdir(Path("/d"))
    disk.sync_volume(Path("/d"))
    file = disk.open(Path("/d/f"), create=True)
    disk.pwrite(file, content, 0)
    if flush:
        disk.fdatasync(file)
    if flush_name:
        disk.fsync_directory(Path("/d"))
    return disk


def left_of(*, flush: bool, flush_name: bool, power_cut: bool) -> set[bytes | None]:
    """What many crashes leave of the file; None where it is not there."""
    found: set[bytes | None] = set()
    for seed in range(60):
        disk = disk_with(b"abc", flush=flush, flush_name=flush_name)
        after = disk.after_crash(random.Random(seed), power_cut=power_cut)
        try:
            found.add(after.read_bytes(Path("/d/f")))
        except FileNotFoundError:
            found.add(None)
    return found


def test_what_was_flushed_is_there_after_a_power_cut() -> None:
    assert left_of(flush=True, flush_name=True, power_cut=True) == {b"abc"}


def test_without_its_name_a_file_may_be_gone() -> None:
    assert None in left_of(flush=True, flush_name=False, power_cut=True)


def test_bytes_that_were_not_flushed_are_lost_or_not_or_torn() -> None:
    left = left_of(flush=False, flush_name=True, power_cut=True)
    assert {b"", b"abc"} < left
    assert None not in left


def test_a_killed_process_loses_nothing_that_it_wrote() -> None:
    assert left_of(flush=False, flush_name=False, power_cut=False) == {b"abc"}


def test_what_failed_to_be_flushed_stays_undurable() -> None:
    """The second fdatasync says that all is well, as Linux does."""
    disk = disk_with(b"abc", flush=False, flush_name=True)
    file = disk.open(Path("/d/f"))
    disk.fails = True
    with pytest.raises(OSError, match="Input/output error"):
        disk.fdatasync(file)
    disk.fdatasync(file)
    assert disk.read_bytes(Path("/d/f")) == b"abc"
    assert file.node.durable == b""


def test_nobody_writes_to_a_disk_after_the_crash() -> None:
    disk = disk_with(b"abc", flush=True, flush_name=True)
    file = disk.open(Path("/d/f"))
    after = disk.after_crash(random.Random(1), power_cut=False)
    disk.pwrite(file, b"x", 0)
    assert after.read_bytes(Path("/d/f")) == b"abc"


# --- the kernel


class Asked:
    """A world with a disk and a kernel, which is told of one flush after some appends."""

    def __init__(self, seed: int, takes: float = 1.0) -> None:
        self.world = World(seed)
        self.kernel = SimKernel(self.world, takes)
        self.disk = disk_with(b"abc", flush=False, flush_name=True)
        self.file = self.disk.open(Path("/d/f"))
        self.told: list[OSError | None] = []

    def begin(self) -> bool:
        return self.kernel.begin([self.file.fileno()], self.told.append)

    def happens(self) -> None:
        while self.world._heap and not self.told:
            at, _, action = heapq.heappop(self.world._heap)
            self.world.now = at
            action()


def test_the_kernel_tells_when_the_file_is_synced() -> None:
    for seed in range(10):
        asked = Asked(seed)
        assert asked.begin()
        assert not asked.told
        asked.happens()
        assert asked.told == [None]
        assert asked.file.node.durable == b"abc"


def test_who_asked_the_kernel_is_told_that_the_disk_has_failed() -> None:
    asked = Asked(1)
    asked.begin()
    asked.disk.fails = True
    asked.happens()
    [error] = asked.told
    assert error is not None
    assert error.errno == errno.EIO


def test_nobody_is_told_that_a_disk_that_is_gone_has_synced() -> None:
    asked = Asked(1)
    asked.begin()
    after = asked.disk.after_crash(random.Random(1), power_cut=True)
    asked.happens()
    [error] = asked.told
    assert error is not None
    assert asked.disk.is_gone
    assert not after.is_gone


def test_at_the_end_of_a_run_nobody_waits_for_the_kernel() -> None:
    asked = Asked(1)
    asked.begin()
    asked.kernel.close()
    assert len(asked.told) == 1
    assert not asked.begin(), "nor does anybody begin to"
    asked.happens()
    assert len(asked.told) == 1


def test_a_kernel_without_room_takes_nothing() -> None:
    assert not Asked(1, takes=0.0).begin()
