"""Crashes at file operations of random lives, and damage of the last bytes: a share of what `python -m tests.log.crash`
does.
"""

from random import Random

import pytest

from tests.log.compaction.helpers import compact
from tests.log.compaction.test_rules import build, opened, put, sealed, visible
from tests.log.crash.check import place_on_disk
from tests.log.crash.damage import try_damages
from tests.log.crash.life import TOPIC_ID, batches_of, format_directories, read_batches
from tests.log.crash.mutants import MUTANTS
from tests.log.crash.run import Tally, run_seed
from tests.log.faulty_files import FaultyFiles, make_so
from tests.log.helpers import SMALL, append, batch_bytes, fill, open_log
from tests.log.power_loss import Disk, Style
from trimaran.log.batches.batch import iter_batches
from trimaran.log.config import LogConfig
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 7))
def test_crash_neither_loses_acked_nor_invents_records(tmp_path, seed):
    tally = Tally()
    run_seed(seed, tmp_path, tally, share=0.03)
    assert tally.failures == []
    assert tally.prefixes > 0


@pytest.mark.slow
def test_damage_is_cut_above_recovery_point_refused_below(tmp_path):
    tried, failures = try_damages(tmp_path, stride=13)
    assert failures == []
    assert len(tried) == 13
    assert all(tried.values())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_planted_bug_changes_its_function(mutant):
    healthy = getattr(mutant.owner, mutant.name)
    with mutant.planted():
        assert getattr(mutant.owner, mutant.name) is not healthy
    assert getattr(mutant.owner, mutant.name) == healthy


def test_each_style_keeps_its_part(tmp_path):
    files = FaultyFiles()
    files.watch(tmp_path)
    file = files.open(tmp_path / "a", create=True)
    files.pwrite(file, b"durable", 0)
    files.fdatasync(file)
    files.fsync_directory(tmp_path)
    files.pwrite(file, b"++", 7)
    files.rename(tmp_path / "a", tmp_path / "b")

    def left(style):
        tree = files.disk.after(style, Random(1))
        return {path.rpartition("/")[2]: content for path, content in tree.items() if content is not None}  # fmt: skip

    assert left(Style.KEPT) == {"b": b"durable++"}
    assert left(Style.LOST) == {"a": b"durable"}
    assert left(Style.NAMES) == {"b": b"durable"}
    assert left(Style.BYTES) == {"a": b"durable++"}
    assert left(Style.ZEROS) == {"b": b"durable\0\0"}
    torn = {(name, content) for n in range(40) for name, content in torn_of(files, n)}
    assert ("a", b"durable+") in torn
    assert ("b", b"durable") not in torn


def torn_of(files, seed):
    tree = files.disk.after(Style.TORN, Random(seed))
    return [(path.rpartition("/")[2], content) for path, content in tree.items() if content is not None]  # fmt: skip


def test_undone_truncation_drops_old_batches_behind_new_ones(tmp_path):
    """The new batch has reached the disk, the truncation before it has not: complete truncated batches follow it."""
    log = open_log(tmp_path / "t-0")
    for _ in range(3):
        append(log, 1, epoch=3)
    log.flush()
    path = log.directory / "00000000000000000000.log"
    old = path.read_bytes()
    log.truncate_to(1)
    append(log, 1, epoch=5)
    new = read_batches(log)
    log.close(clean=False)
    size = len(old) // 3
    path.write_bytes(old[:size] + new[1].data + old[2 * size :])
    opened = open_log(log.directory, recovery_point=1)
    assert read_batches(opened) == new
    assert opened.epochs.entries() == [(3, 0), (5, 1)]


def test_start_of_new_log_is_durable_when_reported(tmp_path):
    """A follower begins at the leader's start, 1000. A power loss would undo this until the directory is durable."""
    files = FaultyFiles()
    files.watch(tmp_path)
    files.mkdir(tmp_path / "t-0")
    log = open_log(tmp_path / "t-0", files=files)
    log.truncate_fully_and_start_at(1000)
    assert (log.log_end_offset, log.flushed_offset) == (1000, 0)
    assert left_after_power_loss(files) == set()
    log.flush()
    assert log.flushed_offset == 1000
    assert "00000000000000001000.log" in left_after_power_loss(files)
    log.truncate_fully_and_start_at(2000)
    assert log.flushed_offset == 2000, "its directory is durable, and its names are synced"
    assert "00000000000000002000.log" in left_after_power_loss(files)


def left_after_power_loss(files):
    """Loses everything that may be lost."""
    tree = files.disk.after(Style.LOST, Random(0))
    return {path.rpartition("/")[2] for path, content in tree.items() if content is not None}


def test_compacted_gaps_survive_change_of_cleanup_policy(tmp_path):
    """Below the recovery point a gap between segments is compaction's; above it records are lost, whatever the topic's
    present policy.
    """
    log = open_log(tmp_path / "t-0")
    fill(log, 40)
    log.flush()
    bases = log.segment_base_offsets
    log.close(clean=False)
    for path in log.directory.glob(f"{bases[1]:020d}.*"):
        path.unlink()
    for point, end in ((bases[2], log.log_end_offset), (bases[1], bases[1])):
        opened = open_log(
            log.directory,
            LogConfig(segment_bytes=2000, compacts=end == bases[1]),
            recovery_point=point,
        )
        assert opened.log_end_offset == end
        opened.close(clean=False)


def test_recovery_reads_only_above_recovery_point(tmp_path):
    config = LogConfig(segment_bytes=200_000, index_interval_bytes=4096, retention_ms=-1)
    log = open_log(tmp_path / "t-0", config)
    while log.log_end_offset < 6_000:
        append(log, 10, value=b"v" * 90)
    point = log.flush()
    log.close()
    unflushed = 0
    log = open_log(tmp_path / "t-0", config, clean=True)
    for _ in range(20):
        data = batch_bytes(10, value=b"v" * 90)
        unflushed += len(data)
        append(log, 10, value=b"v" * 90)
    end = log.log_end_offset
    log.close(clean=False)
    files = FaultyFiles()
    opened = open_log(log.directory, config, recovery_point=point, files=files)
    assert opened.log_end_offset == end
    assert opened.size_bytes > 600_000
    blocks = 64 * 1024  # headers and CRCs come with blocks, and an index of the segment is checked
    assert files.bytes_read < 4 * unflushed + 4 * blocks, files.bytes_read


def test_unused_partition_is_not_opened(tmp_path):
    format_directories(tmp_path)
    directory = LogDirectory(tmp_path / "d0")
    for partition in range(30):
        append(directory.create_log(TopicPartition("t", partition), TOPIC_ID, SMALL))
    directory.close(broker_epoch=1)
    files = FaultyFiles()
    again = LogDirectory(tmp_path / "d0", files=files)
    assert len(again.partitions()) == 30
    few = 10  # the lock, the identity, the clean shutdown file, the checkpoints: however many partitions there are
    assert files.calls["open"] + files.calls["read_bytes"] < few
    assert files.calls["list_directory"] == 1
    again.close(broker_epoch=None)


def test_recovered_log_is_durable_after_first_flush(tmp_path):
    """The process was killed before it flushed; files that the next process flushes must not lose their names in a
    later power loss.
    """
    format_directories(tmp_path)
    files = FaultyFiles()
    files.watch(tmp_path)
    directory = LogDirectory(tmp_path / "d0", files=files)
    append(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL))
    directory.close(broker_epoch=None)
    directory = LogDirectory(tmp_path / "d0", files=files)
    log = directory.open_log(TopicPartition("t", 0), SMALL)
    append(log)
    batches, end = read_batches(log), log.flush()
    directory.close(broker_epoch=None)
    disk = Disk(files.recording)
    for operation in files.recording.operations:
        disk.apply(operation)
    make_so(disk.after(Style.LOST, Random(0)), instead_of=disk.after(Style.KEPT, Random(0)))
    directory = LogDirectory(tmp_path / "d0")
    log = directory.open_log(TopicPartition("t", 0), SMALL)
    assert (log.log_end_offset, directory.topic_id(TopicPartition("t", 0))) == (end, TOPIC_ID)
    assert read_batches(log) == batches
    assert batches_of(b"".join(batch.data for batch in batches)) == batches
    directory.close(broker_epoch=None)


def test_copy_begins_inside_batch_where_source_starts(tmp_path):
    """After DeleteRecords in the middle of a batch a new follower receives the whole batch."""
    source = open_log(tmp_path / "a-0")
    for _ in range(3):
        append(source, 4, epoch=2)
    source.delete_records_before(6)
    copy = open_log(tmp_path / "b-0", log_start_offset=6)
    data = source.read_bytes(6, 10_000, upto_offset=12)
    copy.append_as_follower(memoryview(data))
    assert (copy.log_start_offset, copy.log_end_offset) == (6, 12)
    assert read_batches(copy) == read_batches(source)
    assert copy.epochs.entries() == [(2, 6)]
    with pytest.raises(KafkaError, match="does not continue"):
        copy.append_as_follower(memoryview(data))
    copy.flush()
    copy.close(clean=False)
    again = open_log(tmp_path / "b-0", recovery_point=12, log_start_offset=6)
    assert read_batches(again) == read_batches(source)


def transaction(log, producer, *, commit):
    append(log, 2, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build_end_marker(EndMarker(commit, 0), producer_id=producer, producer_epoch=0, timestamp_ms=1)  # fmt: skip
    log.append_as_leader(
        memoryview(marker), list(iter_batches(memoryview(marker))), leader_epoch=0, now_ms=0
    )


def lose_power(files):
    make_so(files.disk.after(Style.LOST, Random(0)), instead_of=files.disk.after(Style.KEPT, Random(0)))  # fmt: skip


@pytest.mark.parametrize("is_killed", [False, True])
def test_truncated_abort_does_not_reappear(tmp_path, is_killed):
    """The position of the abort now belongs to another batch, which the index must not mark as aborted."""
    files = FaultyFiles()
    files.watch(tmp_path)
    log = open_log(tmp_path / "t-0", files=files)
    transaction(log, 7, commit=False)
    log.roll(0)
    log.flush()
    log.truncate_to(2)
    if is_killed:
        log.close(clean=False)
        log = open_log(tmp_path / "t-0", files=files, recovery_point=2)
    append(log, 5, epoch=1)
    point = log.flush()
    log.close(clean=False)
    lose_power(files)
    again = open_log(tmp_path / "t-0", recovery_point=point)
    assert again.log_end_offset == 7
    assert again.aborted_transactions(0, 7) == []


def test_compacted_log_cut_in_gap_ends_at_batch(tmp_path):
    """Otherwise a recovery would find fewer offsets than were flushed, and report a loss."""
    log = opened(tmp_path)
    for key in b"aabab":
        put(log, (bytes([key]), b"v"))
    sealed(log)
    put(log, (b"b", b"v"))
    compact(log)
    assert [batch.base_offset for batch in read_batches(log)] == [3, 4, 5]
    log.truncate_to(4)
    append(log)
    log.truncate_to(4)
    assert log.log_end_offset == 4
    log.truncate_to(2)
    assert log.log_end_offset == log.flush() == 0
    log.close(clean=False)
    assert opened(tmp_path, recovery_point=log.flushed_offset).log_end_offset == 0


def test_zeroed_entry_is_not_an_abort(tmp_path):
    log = open_log(tmp_path / "t-0")
    transaction(log, 7, commit=False)
    transaction(log, 8, commit=False)
    log.flush()
    wanted = log.aborted_transactions(0, 6)
    log.close(clean=False)
    [path] = log.directory.glob("*.txnindex")
    data = path.read_bytes()
    path.write_bytes(bytes(len(data) // 2) + data[len(data) // 2 :])
    again = open_log(tmp_path / "t-0", recovery_point=6)
    assert again.aborted_transactions(0, 6) == wanted
    assert [entry.producer_id for entry in wanted] == [7, 8]


@pytest.mark.slow
def test_interrupted_compaction_leaves_old_or_new_segments(tmp_path):
    """Compaction is interrupted at every operation, with and without power loss: the aborts are the same, and durable
    records stay.
    """
    files, home = FaultyFiles(), tmp_path / "life"
    home.mkdir()
    files.watch(home)
    log = build(home, files)
    log.flush()
    old, before, point = visible(log), len(files.recording.operations), log.flushed_offset
    compact(log)
    files.fsync_directory(log.directory)
    new = visible(log)
    assert old != new
    disk, found = Disk(files.recording), set()
    for number, operation in enumerate(files.recording.operations):
        disk.apply(operation)
        for style in (Style.KEPT, Style.LOST, Style.ZEROS) if number >= before else ():
            place_on_disk(disk.after(style, Random(number)), home, tmp_path / "crashed")
            again = opened(tmp_path / "crashed", recovery_point=point)
            last = visible(again)
            assert last in (old, new), (number, style)
            found.add(last == new)
            again.close(clean=False)
    assert found == {True, False}
    assert last == new


def test_restored_start_may_exceed_remaining_segments(tmp_path):
    """P10: a deletion was noted in the epochs' file and not in the checkpoint; no segment was removed yet."""
    log = fill(open_log(tmp_path / "t-0"), 100)
    earlier, later = log.segment_base_offsets[2], log.segment_base_offsets[4]
    log.flush()
    log.delete_records_before(later)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(log.epochs.format())
    end = log.log_end_offset
    again = open_log(tmp_path / "t-0", recovery_point=end, log_start_offset=earlier + 1)
    assert again.log_start_offset == earlier + 1
    assert again.epochs.entries() == [(0, earlier + 1)]
