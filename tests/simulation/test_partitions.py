"""The simulation of partitions as a test: every invariant holds for the seeds, planted bugs are found, and a seed
determines its run.
"""

from __future__ import annotations

import errno
import heapq
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.batches import batch
from tests.simulation.checker import Violation
from tests.simulation.mutants.mutant import SURVIVED, Mutant, hunt
from tests.simulation.partitions.copies import has_batch
from tests.simulation.partitions.disk import SimDisk
from tests.simulation.partitions.disk_faults import CALLS, damage, repair, small_files
from tests.simulation.partitions.kernel import SimKernel
from tests.simulation.partitions.mutants import ELSEWHERE, EMPHASIS, STORAGE
from tests.simulation.partitions.mutants import PARTITIONS as MUTANTS
from tests.simulation.partitions.replica_logs import batch_ends, entries_in
from tests.simulation.partitions.simulation import PARTITIONS
from tests.simulation.partitions.world import World

# Takes a few seconds of one core; `./dev simulate --partitions N` runs any number of seeds.
SEEDS = range(1, 11)
# One planted bug of each file, which one of the first seeds finds.
QUICK = (
    *("acks wait for no replica", "keeps what diverges", "reads above the watermark"),
    *("epoch start not recorded", "append is reported before its flush", "emptied disk leads"),
    *(
        "flush is reported when it begins",
        "source of a move goes first",
        "offline directories are not reported",
    ),
    "abandoned move continues",
)
QUICK_SEEDS = 12


FAILING = {"directories": 2, "directory_fails_every": 0.4, "away": 0.4, "move_every": 0.2}
# Seeds with several directories per broker: disks fail, are missing at a start, or stay broken to the end.
DIRECTORIES = range(1, 13)


@pytest.mark.slow
def test_seeds_hold_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    results = PARTITIONS.run_many(SEEDS, quiet=True)
    results += PARTITIONS.run_many(DIRECTORIES, quiet=True, emphasis=FAILING)
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


def test_restarted_leader_knows_producers_of_deleted_records() -> None:
    """This seed once wrote a batch twice (I1)."""
    assert World(13, emphasis=EMPHASIS["deleted records block the follower"]).run().acked


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def test_enough_mutants_exist() -> None:
    names = {mutant.name for mutant in MUTANTS}
    assert len(names) == len(MUTANTS) >= 100
    assert ELSEWHERE.keys() <= names
    assert EMPHASIS.keys() | STORAGE.keys() <= names


def test_seed_determines_its_run() -> None:
    """The same seed gives the same run, event by event."""
    first, second = trace_of(World(4, chaos_seconds=2.0)), trace_of(World(4, chaos_seconds=2.0))
    assert len(first) > 40
    assert first == second


def trace_of(world: World) -> list[str]:
    world.trace = []
    world.run()
    return world.trace


def test_failing_seed_is_reported_and_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """The transcript ends with the violation; the note tells how to reproduce it."""
    mutant = named("acks wait for no replica")
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


def test_seed_reproduces_run_with_several_directories() -> None:
    """The world determines random names and the times of purges."""
    runs = [trace_of(World(2, emphasis=FAILING)) for _ in range(2)]
    assert any("asked to move" in line for line in runs[0])
    assert runs[0] == runs[1]


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
    """Returns the remains of the file after each of many crashes; None if it is missing."""
    found: set[bytes | None] = set()
    for seed in range(60):
        disk = disk_with(b"abc", flush=flush, flush_name=flush_name)
        after = disk.after_crash(random.Random(seed), power_cut=power_cut)
        try:
            found.add(after.read_bytes(Path("/d/f")))
        except FileNotFoundError:
            found.add(None)
    return found


def test_flushed_data_survives_power_cut() -> None:
    assert left_of(flush=True, flush_name=True, power_cut=True) == {b"abc"}


def test_file_with_unsynced_name_may_vanish() -> None:
    assert None in left_of(flush=True, flush_name=False, power_cut=True)


def test_unflushed_bytes_are_kept_lost_or_torn() -> None:
    left = left_of(flush=False, flush_name=True, power_cut=True)
    assert {b"", b"abc"} < left
    assert None not in left


def test_killed_process_loses_no_written_bytes() -> None:
    assert left_of(flush=False, flush_name=False, power_cut=False) == {b"abc"}


def test_failed_flush_stays_undurable() -> None:
    """The second fdatasync succeeds, as on Linux."""
    disk = disk_with(b"abc", flush=False, flush_name=True)
    file = disk.open(Path("/d/f"))
    disk.fails = True
    with pytest.raises(OSError, match="Input/output error"):
        disk.fdatasync(file)
    disk.fdatasync(file)
    assert disk.read_bytes(Path("/d/f")) == b"abc"
    assert file.node.durable == b""


def test_names_with_failed_fsync_stay_undurable() -> None:
    disk = disk_with(b"abc", flush=True, flush_name=False)

    def fail(name: str, *_paths: object) -> None:
        if name == "fsync_directory":
            raise OSError(errno.EIO, name)

    disk.on_call = fail
    with pytest.raises(OSError, match="fsync_directory"):
        disk.fsync_directory(Path("/d"))
    disk.on_call = None
    disk.fsync_directory(Path("/d"))
    for seed in range(20):
        after = disk.after_crash(random.Random(seed), power_cut=True)
        assert list(after.list_directory(Path("/d"))) == []


def test_batch_on_disk_is_found_by_its_offset() -> None:
    """The batch follows others in the segment of its offset; preallocated zeros are not batches."""
    first, second = bytes(batch(b"a")), bytes(batch(b"b", base_offset=1))
    disk = SimDisk(lambda: 0)
    disk.mkdir(Path("/t-0"))
    disk.pwrite(disk.open(Path("/t-0/0.log"), create=True), first + second + bytes(100), 0)
    files = disk._directory(Path("/t-0"))
    [held, last] = entries_in(first + second)
    assert has_batch(files, held)
    assert has_batch(files, last)
    assert not has_batch(files, last._replace(crc=held.crc))
    assert not has_batch(files, last._replace(epoch=7))
    assert not has_batch(files, last._replace(base=2))
    assert list(batch_ends(first + second)) == [0, len(first), len(first + second)]


@pytest.mark.parametrize("call", sorted(CALLS))
def test_every_call_of_the_file_layer_can_fail(call: str) -> None:
    disk = disk_with(b"abc", flush=True, flush_name=True)
    file = disk.open(Path("/d/f"))
    disk.mkdir(Path("/d/e"))
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open(Path("/d/f")),
        "create": lambda: disk.open(Path("/d/g"), create=True),
        "pwrite": lambda: disk.pwrite(file, b"xyz", 3),
        "pread": lambda: disk.pread(file, 3, 0),
        "fdatasync": lambda: disk.fdatasync(file),
        "fsync_directory": lambda: disk.fsync_directory(Path("/d")),
        "rename": lambda: disk.rename(Path("/d/f"), Path("/d/g")),
        "unlink": lambda: disk.unlink(Path("/d/f")),
        "mkdir": lambda: disk.mkdir(Path("/d/g")),
        "rmdir": lambda: disk.rmdir(Path("/d/e")),
        "list": lambda: disk.list_directory(Path("/d")),
        "truncate": lambda: disk.truncate(file, 1),
        "preallocate": lambda: disk.preallocate(file, 9),
        "read_bytes": lambda: disk.read_bytes(Path("/d/f")),
    }

    def fail(name: str, *_paths: object) -> None:
        if name == call:
            raise OSError(errno.EIO, name)

    disk.on_call = fail
    for name, make_call in calls.items():
        if name == call:
            with pytest.raises(OSError, match=name):
                make_call()
    disk.on_call = None
    assert sorted(disk.list_directory(Path("/d"))) == ["e", "f"]
    assert disk.read_bytes(Path("/d/f")) == (b"abcx" if call == "pwrite" else b"abc")


@pytest.mark.parametrize("name", ["partition.metadata", "x-checkpoint", "meta.properties"])
def test_damaged_file_is_restored_unless_written_since(name: str) -> None:
    for seed in range(20):
        disk, path = SimDisk(lambda: 0), Path("/d") / name
        disk.mkdir(Path("/d"))
        disk.pwrite(disk.open(path, create=True), b"topic_id: abc", 0)
        assert small_files(disk, Path("/d")) == [path]
        damaged = damage(disk, path, random.Random(seed))
        assert disk.read_bytes(path) == damaged.after != damaged.before
        if seed % 2:
            assert repair(disk, damaged)
            assert disk.read_bytes(path) == b"topic_id: abc"
        else:
            disk.truncate(disk.open(path), 0)
            disk.pwrite(disk.open(path), b"topic_id: new", 0)
            assert not repair(disk, damaged)


def test_crashed_disk_ignores_later_writes() -> None:
    disk = disk_with(b"abc", flush=True, flush_name=True)
    file = disk.open(Path("/d/f"))
    after = disk.after_crash(random.Random(1), power_cut=False)
    disk.pwrite(file, b"x", 0)
    assert after.read_bytes(Path("/d/f")) == b"abc"


# --- the kernel


class Asked:
    """A world with a disk and a kernel, which reports one flush after some appends."""

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


def test_kernel_notifies_when_file_is_synced() -> None:
    for seed in range(10):
        asked = Asked(seed)
        assert asked.begin()
        assert not asked.told
        asked.happens()
        assert asked.told == [None]
        assert asked.file.node.durable == b"abc"


def test_caller_of_failed_kernel_sync_gets_eio() -> None:
    asked = Asked(1)
    asked.begin()
    asked.disk.fails = True
    asked.happens()
    [error] = asked.told
    assert error is not None
    assert error.errno == errno.EIO


def test_vanished_disk_never_reports_a_sync() -> None:
    asked = Asked(1)
    asked.begin()
    after = asked.disk.after_crash(random.Random(1), power_cut=True)
    asked.happens()
    [error] = asked.told
    assert error is not None
    assert asked.disk.is_gone
    assert not after.is_gone


def test_no_kernel_call_is_pending_after_run() -> None:
    asked = Asked(1)
    asked.begin()
    asked.kernel.close()
    assert len(asked.told) == 1
    assert not asked.begin(), "nor does anybody begin to"
    asked.happens()
    assert len(asked.told) == 1


def test_kernel_without_room_accepts_nothing() -> None:
    assert not Asked(1, takes=0.0).begin()
