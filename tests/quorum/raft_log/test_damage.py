"""Damage of the metadata log after a crash and after a clean stop; what is torn and what is damaged (R15)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.quorum.replica.test_configured import voter_set
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.quorum.raft.ready import ControlBatch, LeaderAppend, Proposal, VotersChange
from trimaran.quorum.raft.types import OffsetAndEpoch
from trimaran.quorum.raft_log.damage import LogDamaged, readable_history
from trimaran.quorum.raft_log.metadata_log import MetadataLog, open_metadata_log
from trimaran.quorum.raft_log.recovery_point import RecoveryPoint
from trimaran.quorum.raft_log.snapshot_format import encode_snapshot

BATCHES = 10
# A batch spans several sectors.
VALUE = bytes(range(1, 251)) * 8
NAME = f"{0:020d}.log"


@pytest.fixture(params=[b"x" * 50, VALUE], ids=["in a sector", "over sectors"])
def value(request: pytest.FixtureRequest) -> bytes:
    chosen: bytes = request.param
    return chosen


def begin(path: Path, value: bytes) -> tuple[LogDirectory, MetadataLog]:
    path.mkdir()
    MetaProperties("cluster", 1, bytes([1]) * 16).save(path)
    directory = LogDirectory(path)
    log = open_metadata_log(directory, LogConfig())
    for _ in range(BATCHES):
        append(log, value)
    log.log.flush()
    return directory, log


def append(log: MetadataLog, value: bytes, epoch: int = 1) -> None:
    batch = build_batch([NewRecord(None, value, 1)])
    log.append_as_leader(LeaderAppend(log.end_offset, epoch, (Proposal(batch, 1),)), now_ms=1)


def save(log: MetadataLog) -> None:
    log.reach_recovery_point()
    log.save_recovery_point()


def crash(tmp_path: Path, directory: LogDirectory) -> Path:
    """Leaves the directory like a killed process."""
    left = tmp_path / "left"
    shutil.copytree(directory.path, left)
    return left


def positions(path: Path) -> list[tuple[int, int]]:
    """Returns (position, size) of each batch."""
    found, at = [], 0
    for batch in iter_batches(memoryview(path.read_bytes())):
        found.append((at, batch.size))
        at += batch.size
    return found


def change(left: Path, edit: Callable[[bytearray], object], name: str = NAME) -> None:
    path = left / "__cluster_metadata-0" / name
    data = bytearray(path.read_bytes())
    edit(data)
    path.write_bytes(data)


def flip(left: Path, number: int, byte: int) -> None:
    """Flips one bit of a byte of batch `number`, counted from its end if negative."""
    at, size = positions(left / "__cluster_metadata-0" / NAME)[number]

    def edit(data: bytearray) -> None:
        data[at + byte % size] ^= 1

    change(left, edit)


def open_again(left: Path, *, has_others: bool = True) -> MetadataLog:
    return open_metadata_log(LogDirectory(left), LogConfig(), lambda _history: has_others)


BYTES = {"record": -1, "CRC": 17, "length": 11, "long length": 8, "base offset": 7, "magic": 16}


@pytest.mark.parametrize("byte", BYTES.values(), ids=BYTES)
@pytest.mark.parametrize("number", [0, 5, BATCHES - 1])
@pytest.mark.parametrize("saved", [True, False], ids=["below the point", "above the point"])
def test_damage_beyond_crash_effects_is_fetched_again(
    tmp_path: Path, value: bytes, number: int, byte: int, saved: bool
) -> None:
    directory, log = begin(tmp_path / "running", value)
    if saved:
        save(log)
    left = crash(tmp_path, directory)
    flip(left, number, byte)
    for life in ("first", "second"):
        again_in = LogDirectory(left)
        again = open_metadata_log(again_in, LogConfig(), lambda _history: True)
        assert (again.end_offset, again.refetch_end) == (number, BATCHES), life
        assert [b.base_offset for b in again.batches(0, BATCHES)] == list(range(number))
        again_in.close(broker_epoch=None)


@pytest.mark.parametrize("number", [0, 5, BATCHES - 1])
@pytest.mark.parametrize("byte", [-1, 11, 16])
def test_sole_voter_reports_damage_without_changes(
    tmp_path: Path, value: bytes, number: int, byte: int
) -> None:
    directory, _ = begin(tmp_path / "running", value)
    left = crash(tmp_path, directory)
    flip(left, number, byte)
    before = (left / "__cluster_metadata-0" / NAME).read_bytes()
    with pytest.raises(LogDamaged, match=f"offset {number} of 10"):
        open_again(left, has_others=False)
    assert (left / "__cluster_metadata-0" / NAME).read_bytes() == before
    assert not (left / "__cluster_metadata-0.refetch").exists()


def test_damage_after_clean_stop_is_found(tmp_path: Path, value: bytes) -> None:
    directory, _ = begin(tmp_path / "running", value)
    directory.close(broker_epoch=-1)
    left = crash(tmp_path, directory)
    flip(left, BATCHES - 1, 16)
    again = open_again(left)
    assert (again.end_offset, again.refetch_end) == (BATCHES - 1, BATCHES)


# --- after a power cut


def test_torn_end_is_cut_without_fetching(tmp_path: Path) -> None:
    """Truncated anywhere in the last batch; or one sector of a batch was never written, with whole batches after it."""
    directory, log = begin(tmp_path / "running", VALUE)
    save(log)
    for _ in range(3):
        append(log, VALUE)
    left = crash(tmp_path, directory)
    places = positions(left / "__cluster_metadata-0" / NAME)
    at, size = places[BATCHES]
    first = (at // 512 + 1) * 512
    cases: list[Callable[[bytearray], object]] = [
        *(
            lambda data, end=end: data.__delitem__(slice(end, None))
            for end in range(at, at + size, 97)
        ),
        *(
            lambda data, s=s: data.__setitem__(slice(s, s + 512), bytes(512))
            for s in range(first, at + size - 512, 512)
        ),
        lambda data: data.__setitem__(slice(at, first), bytes(first - at)),
        lambda data: data.__setitem__(slice(at, None), bytes(len(data) - at)),
    ]
    for number, edit in enumerate(cases):
        one = tmp_path / f"case-{number}"
        shutil.copytree(left, one)
        change(one, edit)
        again = open_again(one, has_others=False)
        assert (again.end_offset, again.refetch_end) == (BATCHES, None), number


def test_zeros_in_flushed_part_are_damage(tmp_path: Path) -> None:
    directory, log = begin(tmp_path / "running", VALUE)
    save(log)
    left = crash(tmp_path, directory)
    at, size = positions(left / "__cluster_metadata-0" / NAME)[-1]
    change(left, lambda data: data.__setitem__(slice(at, at + size), bytes(size)))
    again = open_again(left)
    assert (again.end_offset, again.refetch_end) == (BATCHES - 1, BATCHES)


def test_shortened_log_is_damaged(tmp_path: Path) -> None:
    directory, log = begin(tmp_path / "running", VALUE)
    save(log)
    left = crash(tmp_path, directory)
    at, _ = positions(left / "__cluster_metadata-0" / NAME)[4]
    change(left, lambda data: data.__delitem__(slice(at, None)))
    again = open_again(left)
    assert (again.end_offset, again.refetch_end) == (4, BATCHES)


def test_missing_log_is_damaged(tmp_path: Path) -> None:
    directory, log = begin(tmp_path / "running", VALUE)
    save(log)
    left = crash(tmp_path, directory)
    (left / "__cluster_metadata-0" / NAME).unlink()
    again = open_again(left)
    assert (again.end_offset, again.refetch_end) == (0, BATCHES)


def test_truncation_undone_by_crash_is_no_damage(tmp_path: Path) -> None:
    """The old end follows batches of a newer epoch."""
    directory, log = begin(tmp_path / "running", VALUE)
    save(log)
    old = (log.log.directory / NAME).read_bytes()
    log.truncate_to(5)
    append(log, VALUE, epoch=2)
    left = crash(tmp_path, directory)
    change(left, lambda data: data.extend(old[len(data) :]))
    again = open_again(left, has_others=False)
    assert (again.end_offset, again.refetch_end) == (6, None)


# --- the recovery point itself


def test_recovery_point_follows_flushes_and_truncations(tmp_path: Path) -> None:
    _, log = begin(tmp_path / "running", VALUE)
    path = log.log.directory
    save(log)
    assert RecoveryPoint(path).offset == BATCHES
    append(log, VALUE)
    save(log)
    assert RecoveryPoint(path).offset == BATCHES, "not flushed yet"
    log.reach_recovery_point()
    log.truncate_to(3)
    assert RecoveryPoint(path).offset == 3
    log.save_recovery_point()
    assert RecoveryPoint(path).offset == 3, "what was reached before the truncation is not written"
    log.snapshots.write(OffsetAndEpoch(20, 1), [b"".join(snapshot(20))])
    log.start_at_snapshot(OffsetAndEpoch(20, 1))
    save(log)
    assert RecoveryPoint(path).offset == 20


def snapshot(offset: int) -> list[bytes]:
    return list(
        encode_snapshot(
            OffsetAndEpoch(offset, 1), [], appended_at_ms=5, now_ms=9, kraft_version=0, voters=None
        )
    )


def test_log_beginning_at_snapshot_opens_after_crash(tmp_path: Path) -> None:
    directory, log = begin(tmp_path / "running", VALUE)
    save(log)
    log.snapshots.write(OffsetAndEpoch(20, 1), snapshot(20))
    log.start_at_snapshot(OffsetAndEpoch(20, 1))
    save(log)
    left = crash(tmp_path, directory)
    shutil.copytree(left, tmp_path / "bare")
    (tmp_path / "bare" / "__cluster_metadata-0" / f"{20:020d}.log").unlink()
    for found in (left, tmp_path / "bare"):
        again = open_again(found, has_others=False)
        assert (again.start_offset, again.end_offset, again.refetch_end) == (20, 20, None)


def test_damaged_recovery_point_is_ignored(tmp_path: Path) -> None:
    _, log = begin(tmp_path / "running", VALUE)
    save(log)
    path = log.log.directory.with_name("__cluster_metadata-0.flushed")
    path.write_bytes(path.read_bytes().replace(b"1", b"3", 1))
    assert RecoveryPoint(log.log.directory).offset == 0


def test_voters_behind_damage_are_read(tmp_path: Path) -> None:
    directory, log = begin(tmp_path / "running", VALUE)
    voters = ControlBatch((VotersChange(voter_set(1, 2)),))
    log.append_as_leader(LeaderAppend(log.end_offset, 1, (voters,)), now_ms=1)
    left = crash(tmp_path, directory)
    flip(left, 5, 16)
    history = readable_history(left / "__cluster_metadata-0")
    assert history.voters_at(1 << 40) == voter_set(1, 2)
