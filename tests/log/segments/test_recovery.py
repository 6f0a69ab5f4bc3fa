"""Opening after a crash: a torn unflushed end is truncated, the flushed part never gets shorter (mD1–mD4, mD7)."""

import os

import pytest

from tests.checks import check_each
from tests.log.helpers import SMALL, append, batch_bytes, fill, open_log, read_all, view_of
from trimaran.log.batches.batch import CRC_START, iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.disk.checkpoints import LEADER_EPOCHS
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.segments.recovery import (
    READ_AT_ONCE_BYTES,
    SNAPSHOT_BYTES_AT_ONCE,
    base_offset_of,
    crc_is_valid,
    lacks_index,
    list_segments,
    takes_long,
)
from trimaran.log.segments.scan import scan_headers
from trimaran.wire.errors import ErrorCode, KafkaError


def crash(log):
    """Closes nothing properly; the content of the page cache is on disk."""
    log.close(clean=False)
    return log.directory


def last_file(directory):
    return max(directory.glob("*.log"))


def refuses(directory, recovery_point, **options):
    with pytest.raises(KafkaError) as raised:
        open_log(directory, recovery_point=recovery_point, **options)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return raised.value.message


def test_batch_cut_at_any_byte_is_truncated(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 4)
    log.flush()
    keep = log.log_end_offset
    append(log, 2)
    batches = read_all(log)
    data = last_file(crash(log)).read_bytes()
    for cut in range(1, len(batches[-1]) + 1):
        last_file(log.directory).write_bytes(data[:-cut])
        opened = open_log(log.directory, recovery_point=keep)
        assert (opened.log_end_offset, opened.flushed_offset) == (keep, keep)
        assert read_all(opened) == batches[:-1]
        append(opened, 1)
        assert opened.log_end_offset == keep + 1
        opened.close(clean=False)


@pytest.mark.parametrize(
    "tail",
    [
        bytes(100),
        b"\xff" * 100,
        os.urandom(300),
        bytes(batch_bytes(2)),  # a batch of another file, with offsets from 0 on
        bytes(batch_bytes(2))[:40],
    ],
    ids=["zeros", "ones", "random", "stale batch", "stale header"],
)
def test_garbage_after_the_end_is_truncated(tmp_path, tail, caplog):
    log = fill(open_log(tmp_path / "t-0"), 5)
    log.flush()
    batches = read_all(log)
    crash(log)
    with last_file(log.directory).open("ab") as file:
        file.write(tail)
    opened = open_log(log.directory, recovery_point=log.flushed_offset)
    assert read_all(opened) == batches
    assert last_file(log.directory).stat().st_size == opened.size_bytes
    told = [message for message in caplog.messages if f"{len(tail)} bytes are cut off" in message]
    assert len(told) == any(tail), "zeros nobody wrote"
    assert all("; 0 whole batches are among them" in line for line in told)


def test_repeated_block_is_truncated(tmp_path):
    log = fill(open_log(tmp_path / "t-0", LogConfig()), 5)
    data = last_file(crash(log)).read_bytes()
    last_file(log.directory).write_bytes(data + data[-200:])
    assert open_log(log.directory).log_end_offset == log.log_end_offset


def test_flipped_bit_above_recovery_point_cuts_there(tmp_path, caplog):
    log = fill(open_log(tmp_path / "t-0"), 40)
    batches = read_all(log)
    assert len(log.segment_base_offsets) > 3
    crash(log)
    first = min(log.directory.glob("*.log"))
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    opened = open_log(log.directory)
    kept = read_all(opened)
    assert kept == batches[: len(kept)]
    assert opened.log_end_offset == log.segment_base_offsets[1] - 3
    assert len(list(log.directory.glob("*.log"))) == 1
    assert (
        caplog.text.count("the segments before it were cut off")
        == len(log.segment_base_offsets) - 1
    )


def test_records_lost_with_flipped_bit_are_counted(tmp_path, caplog):
    """The disk does not show whether they had been fsynced; an operator must learn that they existed."""
    log = fill(open_log(tmp_path / "t-0", LogConfig()), 10)
    third = sum(len(batch) for batch in read_all(log)[:2])
    crash(log)
    data = bytearray(last_file(log.directory).read_bytes())
    data[third + 70] ^= 1
    last_file(log.directory).write_bytes(data)
    assert open_log(log.directory, LogConfig()).log_end_offset == 6
    assert f"{len(data) - third} bytes are cut off from position {third}, offset 6" in caplog.text
    assert "7 whole batches are among them" in caplog.text


def test_damage_below_recovery_point_takes_replica_offline(tmp_path):
    log = fill(open_log(tmp_path / "t-0", LogConfig()), 10)
    log.flush()
    path = last_file(crash(log))
    data = path.read_bytes()
    for what, damaged in [
        ("flipped size", data[:8] + b"\x7f" + data[9:]),
        ("cut", data[:-1]),
        ("cut at a batch", data[: -len(data) // 10]),
        ("empty", b""),
        ("zeroed", bytes(len(data))),
    ]:
        path.write_bytes(damaged)
        assert "flushed" in refuses(log.directory, log.flushed_offset), what
        assert path.read_bytes() == damaged, what


def test_missing_flushed_log_is_refused(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 3)
    log.flush()
    last_file(crash(log)).unlink()
    assert "no segments" in refuses(log.directory, log.flushed_offset)


def test_gap_between_unflushed_segments_ends_the_log(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 40)
    bases = log.segment_base_offsets
    crash(log)
    sorted(log.directory.glob("*.log"))[2].unlink()
    opened = open_log(log.directory)
    assert opened.log_end_offset == bases[2]
    assert opened.segment_base_offsets == bases[:2]


def test_only_part_above_recovery_point_is_read(tmp_path, monkeypatch):
    log = fill(open_log(tmp_path / "t-0"), 60)
    log.flush()
    read = []
    monkeypatch.setattr(
        "trimaran.log.segments.recovery.crc_is_valid",
        lambda *arguments: read.append(arguments[3].base_offset) or True,
    )
    point = log.log_end_offset - 6
    crash(log)
    opened = open_log(log.directory, recovery_point=point)
    assert read == [point, point + 3]
    assert opened.log_end_offset == log.log_end_offset


def test_torn_end_after_a_clean_shutdown_is_damage(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 3)
    log.close()
    path = last_file(log.directory)
    path.write_bytes(path.read_bytes()[:-1])
    assert "clean shutdown" in refuses(log.directory, 0, clean=True)


def test_clean_reopening_reads_a_few_headers_only(tmp_path):
    log = fill(open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=500)), 300)
    log.close()
    opened = open_log(log.directory, LogConfig(index_interval_bytes=500), clean=True)
    active = opened._segments.active
    assert len(active._tail_positions) < 10
    assert (opened.log_end_offset, opened.flushed_offset) == (900, 900)


@pytest.mark.parametrize("damage", ["missing", "empty", "half", "old", "garbage"])
def test_leader_epochs_are_rebuilt_from_the_log(tmp_path, damage):
    log = open_log(tmp_path / "t-0")
    old = None
    for epoch in (0, 3, 4):
        fill(log, 15, epoch=epoch)
        log.flush()
        old = old or (log.directory / LEADER_EPOCHS).read_bytes()
    entries = log.epochs.entries()
    assert [epoch for epoch, _ in entries] == [0, 3, 4]
    log.close()
    path = log.directory / LEADER_EPOCHS
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        contents = {"empty": b"", "half": whole[:-4], "old": old, "garbage": b"0\n1\nx y\n"}
        path.write_bytes(contents[damage])
    opened = open_log(log.directory, clean=True)
    assert opened.epochs.entries() == entries
    opened.flush()
    assert path.read_bytes() == whole


def test_epochs_of_cut_batches_go_with_them(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 2, epoch=1)
    fill(log, 1, epoch=2)
    log.flush()
    path = last_file(crash(log))
    path.write_bytes(path.read_bytes()[:-1])
    opened = open_log(log.directory, recovery_point=6)
    assert opened.epochs.entries() == [(1, 0)]


def test_epoch_without_records_is_not_found_again(tmp_path):
    """The replica flushed the epoch's start as leader, wrote no record in it, and then followed a leader that had
    records of an older epoch.
    """
    log = fill(open_log(tmp_path / "t-0"), 1, count=4, epoch=3)
    log.begin_epoch(5)
    log.flush()
    point = log.log_end_offset
    log.truncate_to(point)
    fill(log, 1, epoch=4)
    fill(log, 1, epoch=6)
    entries = [(3, 0), (4, 4), (6, 7)]
    assert log.epochs.entries() == entries
    assert open_log(crash(log), recovery_point=point).epochs.entries() == entries


def swap_in(directory, base, data):
    (directory / f"{base:020d}.log.swap").write_bytes(data)


def test_swap_interrupted_by_crash_is_completed(tmp_path):
    """mD4, KAFKA-12520: the cleaned segment replaces all of its sources, however many are left."""
    config = LogConfig(segment_bytes=2000, compacts=True, deletes=False)
    log = fill(open_log(tmp_path / "t-0", config), 40)
    batches = read_all(log)
    bases = log.segment_base_offsets
    log.close()
    cleaned = batches[0] + batches[len(batches) // 2]
    last_cleaned = list(iter_batches(cleaned))[-1]
    swap_in(log.directory, 0, cleaned)
    (log.directory / f"{bases[2]:020d}.log.cleaned").write_bytes(b"half")
    (log.directory / f"{bases[1]:020d}.log.deleted").write_bytes(b"x")
    opened = open_log(log.directory, config, recovery_point=log.log_end_offset)
    rest = [b for b in batches if next(iter_batches(b)).base_offset >= last_cleaned.next_offset]
    got = read_all(opened)
    assert got[:2] == [batches[0], batches[len(batches) // 2]]
    assert set(got[2:]) <= set(rest)
    offsets = [v.base_offset for b in got for v in iter_batches(b)]
    assert offsets == sorted(set(offsets))
    assert not [p for p in log.directory.iterdir() if p.suffix in (".swap", ".cleaned", ".deleted")]


def test_half_renamed_swap_is_discarded(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 40)
    batches = read_all(log)
    log.close()
    swap_in(log.directory, 0, batches[0])
    (log.directory / f"{0:020d}.txnindex.cleaned").write_bytes(b"")
    opened = open_log(log.directory, recovery_point=log.log_end_offset)
    assert read_all(opened) == batches
    assert not [p for p in log.directory.iterdir() if p.suffix in (".swap", ".cleaned")]


@pytest.mark.parametrize("kind", ["directory", "fifo", "symlink"])
def test_segment_of_other_file_type_is_refused(tmp_path, kind):
    log = fill(open_log(tmp_path / "t-0"), 3)
    log.close()
    path = last_file(log.directory)
    path.rename(tmp_path / "aside")
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "aside")
    assert "regular file" in refuses(log.directory, 0)


def test_orphaned_indexes_and_deleted_files_are_removed(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 3)
    log.close()
    for name in ("00000000000000000777.index", "00000000000000000777.timeindex", "x.log.deleted"):
        (log.directory / name).write_bytes(b"1")
    (log.directory / "00000000000000000100-0000000003.checkpoint").write_bytes(b"another's")
    open_log(log.directory, clean=True)
    names = {path.name for path in log.directory.iterdir()}
    assert "00000000000000000100-0000000003.checkpoint" in names
    assert not [name for name in names if "777" in name or "deleted" in name]


def test_offsets_too_far_apart_for_one_segment_roll(tmp_path):
    """KAFKA-5413: relative offsets are int32."""
    log = open_log(tmp_path / "t-0")
    first = batch_bytes(1)
    far = batch_bytes(1, base_offset=(1 << 31) + 5)
    log.append_as_follower(memoryview(first + far))
    assert log.segment_base_offsets == (0, (1 << 31) + 5)
    farther = batch_bytes(1, base_offset=(1 << 33))
    log.append_as_follower(memoryview(farther))
    assert log.log_end_offset == (1 << 33) + 1
    assert len(read_all_headers(log)) == 3


def read_all_headers(log):
    return [
        view.base_offset
        for segment in log._segments.all
        for _, view in scan_headers(segment.files, segment.file, 0, segment.size)
    ]


def test_config_of_the_helpers_has_small_segments():
    assert SMALL.segment_bytes < 10_000


def test_log_emptied_by_crash_begins_at_moved_start(tmp_path):
    """A follower notes the leader's start immediately, and syncs the records above it later."""
    log = fill(open_log(tmp_path / "t-0"), 3)
    append(log, 1, producer_id=7, producer_epoch=0, base_sequence=0)
    log.roll(0)
    log.flush()
    log.close(clean=False)
    for _ in range(2):
        log = open_log(tmp_path / "t-0", recovery_point=10, log_start_offset=20)
        assert (log.log_start_offset, log.log_end_offset) == (20, 20)
        assert log.producers.get(7) is None
        assert log.epochs.latest_epoch == -1
        log.close(clean=False)
    append(log)
    assert [view_of(data).base_offset for data in read_all(log)] == [20]


@pytest.mark.parametrize(
    "epochs", [(0, 0), (0, 1), (1, 0), (2, 1), (0, 2, 1, 3), (-1, 0), (1, 1, 0)]
)
def test_log_ends_before_batch_of_older_epoch(tmp_path, epochs):
    """The batch had been truncated, and the truncation did not reach the disk."""
    log = open_log(tmp_path / "t-0", LogConfig())
    data = b"".join(
        bytes(batch_bytes(1, base_offset=offset, leader_epoch=epoch))
        for offset, epoch in enumerate(epochs)
    )
    crash(log)
    (log.directory / f"{0:020d}.log").write_bytes(data)
    kept = next((n for n in range(1, len(epochs)) if epochs[n] < epochs[n - 1]), len(epochs))
    assert open_log(log.directory, LogConfig()).log_end_offset == kept


def test_indexes_renamed_before_their_log_stay(tmp_path):
    """A crash between the last two renames of a cleaned segment: without its transaction index the records of aborted
    transactions would come back.
    """
    config = LogConfig(segment_bytes=2000, compacts=True, deletes=False)
    log = fill(open_log(tmp_path / "t-0", config), 40)
    batches = read_all(log)
    bases = log.segment_base_offsets
    log.close()
    first = log.directory / f"{0:020d}.log"
    swap_in(log.directory, 0, batches[0])
    first.unlink()
    (log.directory / f"{0:020d}.txnindex").write_bytes(b"new")
    (log.directory / f"{0:020d}.timeindex.swap").write_bytes(b"new")
    (log.directory / f"{bases[1]:020d}.txnindex").write_bytes(b"another segment's")
    segments = list_segments(log.directory, REAL_FILES)
    assert tuple(segment.base_offset for segment in segments) == bases
    assert first.read_bytes() == batches[0]
    assert first.with_suffix(".txnindex").read_bytes() == b"new"
    assert first.with_suffix(".timeindex").read_bytes() == b"new"
    assert (log.directory / f"{bases[1]:020d}.txnindex").exists()


def test_cleaned_segment_replaces_only_those_in_range(tmp_path):
    """Indexes and snapshots are replaced too; a segment that begins at its end stays."""
    log = fill(open_log(tmp_path / "t-0", LogConfig(segment_bytes=2000, compacts=True)), 40)
    batches, bases = read_all(log), log.segment_base_offsets
    log.close()
    before = [data for data in batches if next(iter_batches(data)).base_offset < bases[2]]
    swap_in(log.directory, 0, before[0] + before[-1])
    segments = list_segments(log.directory, REAL_FILES)
    assert [segment.base_offset for segment in segments] == [0, *bases[2:]]
    assert not list(log.directory.glob(f"{bases[1]:020d}.*index"))


@pytest.mark.parametrize(
    ("missing", "expected"),
    [((), False), ((".index",), True), ((".timeindex",), True), ((".index", ".timeindex"), True)],
)
def test_segment_lacks_index_if_either_is_missing(missing, expected):
    kinds = {".log", ".index", ".timeindex"} - set(missing)
    names = {f"{7:020d}{kind}" for kind in kinds} | {f"{8:020d}.index", f"{8:020d}.timeindex"}
    assert lacks_index(names, 7) is expected


LARGE = READ_AT_ONCE_BYTES + 1


def many(sizes):
    """Returns segments with their indexes, and a snapshot of the first."""
    found = {"1.snapshot": 9}
    for base, size in enumerate(sizes):
        found |= {f"{base}.log": size, f"{base}.index": 0, f"{base}.timeindex": 0}
    return found


TAKING = [
    ({}, False),
    ({"0.log": LARGE}, True),  # without indexes and snapshot
    ({"0.log": READ_AT_ONCE_BYTES}, False),
    ({"0.log": LARGE, "0.index": 0, "0.timeindex": 0}, True),  # no snapshot
    ({"0.log": LARGE, "0.index": 0, "0.timeindex": 0, "5.snapshot": 9}, False),
    ({"0.log": LARGE, "0.timeindex": 0, "5.snapshot": 9}, True),
    ({"5.log": LARGE, "5.index": 0, "5.timeindex": 0, "5.snapshot": 9}, True),
    ({"5.log": LARGE, "5.index": 0, "5.timeindex": 0, "6.snapshot": 9}, False),
    (
        {
            "0.log": LARGE,
            "0.index": 0,
            "0.timeindex": 0,
            "9.log": 1,
            "9.index": 0,
            "9.timeindex": 0,
        },
        False,
    ),
    ({"0.log": 1, "0.index": 0, "0.timeindex": 0, "5.snapshot": SNAPSHOT_BYTES_AT_ONCE}, False),
    ({"0.log": 1, "0.index": 0, "0.timeindex": 0, "5.snapshot": SNAPSHOT_BYTES_AT_ONCE + 1}, True),
    ({"0.log": 1, "4.snapshot": SNAPSHOT_BYTES_AT_ONCE + 1, "5.snapshot": 1}, False),
    ({"0.snapshot": SNAPSHOT_BYTES_AT_ONCE + 1}, True),
    (many(sizes=[LARGE] * 8 + [1]), False),  # only the last one is read
    (many(sizes=[1] * 8 + [LARGE]), True),
]


def test_opening_counts_as_slow_for_long_reads(tmp_path):
    def is_so(row):
        sizes, expected = row
        directory = tmp_path / str(TAKING.index(row))
        directory.mkdir()
        for name, size in sizes.items():
            base, suffix = name.split(".")
            with (directory / f"{int(base):020d}.{suffix}").open("wb") as file:
                file.truncate(size)
        assert takes_long(directory, REAL_FILES) is expected

    check_each(TAKING, is_so)
    assert not takes_long(tmp_path / "none", REAL_FILES)


@pytest.mark.parametrize("within", [1, 2, 3])
def test_batch_across_recovery_point_is_checked(tmp_path, within):
    """Only its first records were flushed; damage of the batch counts as damage of the flushed part."""
    log = fill(open_log(tmp_path / "t-0", LogConfig()), 3, count=3)
    path = last_file(crash(log))
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    point = 6 + within
    if within == 3:
        assert open_log(log.directory, LogConfig(), recovery_point=point).log_end_offset == 9
    else:
        assert "flushed" in refuses(log.directory, point, config=LogConfig())


NAMES = [
    (f"{42:020d}.log", ".log", 42),
    (f"{42:020d}.log", ".index", None),
    (f"{42:020d}", ".log", None),
    (f"{42:019d}.log", ".log", None),
    (f"{42:021d}.log", ".log", None),
    (f"{'x' * 20}.log", ".log", None),
    (f"-{42:019d}.log", ".log", None),
]


def test_file_name_offset_has_twenty_digits_and_suffix():
    def is_so(row):
        name, suffix, expected = row
        assert base_offset_of(name, suffix) == expected

    check_each(NAMES, is_so)


def test_batch_crc_is_checked_per_mebibyte(tmp_path):
    """No memory is allocated for its declared size."""

    class Sizes(Files):
        sizes = ()

        def pread(self, file, size, position):
            self.sizes = (*self.sizes, size)
            return super().pread(file, size, position)

    data = batch_bytes(1, value=bytes((1 << 20) + 1000))
    (tmp_path / "log").write_bytes(data)
    files = Sizes()
    file = files.open(tmp_path / "log", write=False)
    assert crc_is_valid(files, file, 0, view_of(data))
    assert files.sizes == (1 << 20, len(data) - CRC_START - (1 << 20))
    for size in (0, CRC_START, CRC_START + 500):
        files.truncate(files.open(tmp_path / "log"), size)
        assert not crc_is_valid(files, file, 0, view_of(data))
