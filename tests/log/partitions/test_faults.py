"""Failing disks and power loss: the directory goes offline at the first error, and flushed records survive."""

import errno
import random

import pytest

from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import SMALL, append, fill, open_log, read_all
from trimaran.log.config import LogConfig
from trimaran.log.disk.checkpoints import LEADER_EPOCHS
from trimaran.log.disk.files import WRITTEN_OUT_BYTES
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError


def storage_error(action, *arguments, **options):
    with pytest.raises(KafkaError) as raised:
        action(*arguments, **options)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return raised.value.message


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_appends_fail_after_first_failed_append(tmp_path, error):
    """KAFKA-10778."""
    files = FaultyFiles()
    log = fill(open_log(tmp_path / "t-0", files=files), 3)
    before = read_all(log)
    end = log.log_end_offset
    files.fail_at("pwrite", 1, error)
    storage_error(append, log)
    writes = files.calls["pwrite"]
    for _ in range(3):
        storage_error(append, log)
        storage_error(log.flush)
        storage_error(log.truncate_to, 1)
        storage_error(log.read, 0, 100, upto_offset=end, min_one=True)
    assert files.calls["pwrite"] == writes
    assert log.log_end_offset == end
    log.close(clean=False)
    assert read_all(open_log(log.directory)) == before


def test_interrupted_write_is_cut_on_recovery(tmp_path):
    files = FaultyFiles()
    log = fill(open_log(tmp_path / "t-0", files=files), 3)
    log.flush()
    before = read_all(log)
    files.short_write = lambda size: size - 1
    files.fail_at("pwrite", 1, errno.ENOSPC)
    storage_error(append, log, 3)
    log.close(clean=False)
    assert read_all(open_log(log.directory, recovery_point=log.flushed_offset)) == before


def test_failed_fsync_is_never_retried(tmp_path):
    files = FaultyFiles()
    log = fill(open_log(tmp_path / "t-0", files=files), 3)
    flush = log.prepare_flush()
    files.fail_at("fdatasync")
    with pytest.raises(OSError, match="Input/output"):
        flush.run()
    assert log.finish_flush(flush) == 0
    syncs = files.calls["fdatasync"]
    storage_error(log.flush)
    with pytest.raises(OSError, match="fsync"):
        log.prepare_flush()
    assert files.calls["fdatasync"] == syncs


def test_failed_early_writeout_is_a_failed_fsync(tmp_path):
    """The fsync that follows would not report it."""
    files = FaultyFiles()
    log = open_log(tmp_path / "t-0", LogConfig(), files=files)
    append(log, value=bytes(WRITTEN_OUT_BYTES))
    flush = log.prepare_flush()
    files.fail_at("write_out")
    with pytest.raises(OSError, match="Input/output"):
        flush.run()
    assert log.finish_flush(flush) == 0
    assert files.calls["fdatasync"] == 0
    storage_error(log.flush)


def test_early_writeout_covers_only_large_unflushed_ranges(tmp_path):
    files = FaultyFiles()
    log = open_log(
        tmp_path / "t-0", LogConfig(segment_bytes=5 * WRITTEN_OUT_BYTES // 2), files=files
    )
    ends = []
    for size in (10, WRITTEN_OUT_BYTES, 10, WRITTEN_OUT_BYTES, WRITTEN_OUT_BYTES):
        append(log, value=bytes(size))
        ends.append(log.active_segment.size)
        log.flush()
    first, second = log.segment_base_offsets
    assert files.written_out == [
        (f"{first:020d}.log", ends[0], ends[1]),
        (f"{first:020d}.log", ends[2], ends[3]),
        (f"{second:020d}.log", 0, ends[4]),
    ]


def test_one_failure_takes_all_logs_offline(tmp_path):
    files, health = FaultyFiles(), DirectoryHealth()
    logs = []
    for name in ("a-0", "b-0"):
        (tmp_path / name).mkdir()
        logs.append(
            PartitionLog.open(
                tmp_path / name,
                SMALL,
                LastRun(clean_shutdown=True),
                now_ms=0,
                files=files,
                health=health,
            )
        )
        append(logs[-1])
    files.fail_at("pwrite")
    storage_error(append, logs[0])
    assert "a-0" in storage_error(append, logs[1])


OPERATIONS = {
    "append": lambda log: fill(log, 60),
    "flush": lambda log: log.flush(),
    "roll": lambda log: log.roll(0),
    "truncate": lambda log: log.truncate_to(20),
    "empty": lambda log: log.truncate_fully_and_start_at(500),
    "retention": lambda log: (log.delete_records_before(100), log.apply_retention(0, 200)),
    "read": read_all,
    "timestamp": lambda log: log.offset_for_timestamp(1100),
    "close": lambda log: log.close(),
    "reopen": lambda log: open_log(log.directory, files=log.files).producers,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_eio_in_every_call_is_a_storage_error(tmp_path, name):
    """The log opens afterwards with a prefix of its content, which includes all that was flushed."""
    calls = (
        "open",
        "pwrite",
        "pread",
        "fdatasync",
        "fsync_directory",
        "truncate",
        "rename",
        "unlink",
    )
    seen = [
        fail_one(tmp_path / f"{call}{nth}-0", name, call, nth) for call in calls for nth in (1, 3)
    ]
    assert any(seen)


def fail_one(directory, name, call, nth):
    """Runs the operation with one failing call; returns whether that call was made."""
    files = FaultyFiles()
    log = fill(open_log(directory, files=files), 34)
    log.flush()
    fill(log, 5)
    before, count = b"".join(read_all(log)), files.calls[call]
    log._segments.release()
    files.fail_at(call, nth)
    code = code_of(OPERATIONS[name], log)
    assert (code is not None) == (files.calls[call] >= count + nth), f"{call} {nth}: {code}"
    assert code in (None, ErrorCode.KAFKA_STORAGE_ERROR)
    log.close(clean=False)
    again = open_log(
        directory,
        recovery_point=min(log.flushed_offset, 117),
        log_start_offset=log.log_start_offset,
    )
    after = b"".join(read_all(again))
    if name in ("empty", "retention"):
        assert after in before
    else:
        assert before.startswith(after) or after.startswith(before)
    return code is not None


def code_of(operation, log):
    try:
        operation(log)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_crash_loses_no_flushed_records(tmp_path, seed):
    """P6 for one log: appends, rolls, flushes, truncations, then power loss that keeps any prefix of the unsynced
    writes.
    """
    r = random.Random(seed)
    directory = tmp_path / "t-0"
    directory.mkdir()
    files = FaultyFiles()
    log = open_log(directory, files=files)
    epoch = 0
    flushed, point = [], 0
    for _ in range(12):
        for _ in range(r.randint(1, 20)):
            choice = r.random()
            if choice < 0.75:
                epoch += r.random() < 0.05
                append(log, r.randint(1, 4), epoch=epoch, timestamp_ms=r.randint(0, 5000))
            elif choice < 0.95:
                log.flush()
                flushed, point = read_all(log), log.flushed_offset
            elif log.log_end_offset > 2:
                log.truncate_to(r.randint(1, log.log_end_offset))
                point = min(point, log.flushed_offset)
                flushed = [b for b in flushed if int.from_bytes(b[:8], "big") < point]
        before, epochs = read_all(log), log.epochs.entries()
        log.close(clean=False)
        files.crash(keep_bytes=r.choice([0, 0, r.randint(1, 400), 1 << 20]))
        files = FaultyFiles()
        log = open_log(directory, files=files, recovery_point=point)
        after = read_all(log)
        assert after[: len(flushed)] == flushed
        assert set(after) <= set(before) | set(after[: len(flushed)]) or point < log.log_end_offset
        assert [e for e in epochs if e[1] < point] == [
            e for e in log.epochs.entries() if e[1] < point
        ]
        log.flush()
        flushed, point = read_all(log), log.flushed_offset


def test_new_segment_name_is_durable_with_first_flush(tmp_path):
    """KAFKA-3968: the same check detects the planted bug, a flush without the directory."""
    for with_directory in (True, False):
        directory = tmp_path / f"t-{int(with_directory)}"
        files = FaultyFiles()
        log = fill(open_log(directory, files=files), 3)
        log.flush()
        fill(log, 30)
        flush = log.prepare_flush()
        if not with_directory:
            flush.directories.clear()
        flush.run()
        log.finish_flush(flush)
        end = log.log_end_offset
        log.close(clean=False)
        files.crash()
        if with_directory:
            assert open_log(directory, recovery_point=end).log_end_offset == end
        else:
            storage_error(open_log, directory, recovery_point=end)


def test_appends_during_a_flush_are_not_counted(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 3)
    flush = log.prepare_flush()
    append(log, 5)
    flush.run()
    assert log.finish_flush(flush) == 9
    assert log.flush() == 14


def test_truncation_during_flush_lowers_the_flushed_offset(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 30)
    flush = log.prepare_flush()
    log.truncate_to(30)
    fill(log, 20)
    flush.run()
    assert log.finish_flush(flush) == 30
    assert log.flush() == log.log_end_offset


def test_flush_survives_removal_of_its_segments(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 30)
    log.flush()
    fill(log, 40)
    flush = log.prepare_flush()
    log.truncate_fully_and_start_at(1000)
    log.purge()
    flush.run()
    assert log.finish_flush(flush) == 1000


def test_flush_that_never_ran_makes_nothing_durable(tmp_path):
    files = FaultyFiles()
    log = fill(open_log(tmp_path / "t-0", LogConfig(), files=files), 3)
    log.prepare_flush()
    append(log)
    flush = log.prepare_flush()
    assert flush.open_files
    flush.run()
    assert log.finish_flush(flush) == 10
    assert files.unsynced_bytes == 0


def test_epochs_are_durable_before_the_flushed_offset_moves(tmp_path):
    files = FaultyFiles()
    log = fill(open_log(tmp_path / "t-0", files=files), 3, epoch=0)
    log.flush()
    fill(log, 3, epoch=4)
    log.flush()
    log.close(clean=False)
    files.crash()
    assert (log.directory / LEADER_EPOCHS).read_bytes().rstrip() == b"0\n2\n0 0\n4 9"


def test_power_loss_after_a_clean_close_loses_nothing(tmp_path):
    files = FaultyFiles()
    log = fill(open_log(tmp_path / "t-0", files=files), 30)
    append(log, 2, producer_id=7, producer_epoch=1, base_sequence=0)
    batches = read_all(log)
    log.close()
    files.crash()
    counting = FaultyFiles()
    log = open_log(log.directory, clean=True, files=counting)
    assert read_all(log) == batches
    reads = counting.calls["pread"]
    assert log.producers.get(7).epoch == 1
    assert counting.calls["pread"] == reads, "the snapshot alone says it"
