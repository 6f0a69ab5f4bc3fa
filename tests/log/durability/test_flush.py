"""One flush of a log: the files that it syncs, in order, and the state that its end leaves."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from tests.log.recorded_files import RecordedFiles
from trimaran.log.disk.checkpoints import LEADER_EPOCHS, format_checkpoint
from trimaran.log.disk.files import WRITTEN_OUT_BYTES
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.disk.partition_metadata import FILE_NAME as PARTITION_METADATA
from trimaran.log.durability.flush import Flushing
from trimaran.log.durability.health import DirectoryHealth

MIB = WRITTEN_OUT_BYTES


class SyncedFiles(RecordedFiles):
    """Notes what is made durable, and files that are opened only to read; the kernel may sync."""

    kernel_syncs = True

    def taken(self):
        lines = super().taken()
        return [
            line
            for line in lines
            if line.startswith(("sync", "write out")) or line.endswith(" to read")
        ]


class Log:
    """The flushes of a log with a topic id in a real directory; its segments are made by hand."""

    def __init__(self, path, *, has_id=True):
        self.directory = path / "t-0"
        self.directory.mkdir()
        if has_id:
            (self.directory / PARTITION_METADATA).write_bytes(b"")
        self.files, self.health, self.epochs = SyncedFiles(), DirectoryHealth(), LeaderEpochs()
        self.flushing = Flushing(self.directory, self.epochs, self.files, self.health)

    def segment(self, base, size=10, *, exists=True, aborts=False):
        made = SimpleNamespace(base_offset=base, size=size, exists=exists)
        made.file = self._open(f"{base}.log")
        made.index_files = lambda: [self._open(f"{base}.index"), self._open(f"{base}.timeindex")]
        aborted = self._open(f"{base}.txnindex")
        made.transaction_index = SimpleNamespace(changed=aborts, file=lambda: aborted)
        return made

    def _open(self, name):
        return self.files.open(self.directory / name, create=True)

    def prepare(self, end, *segments):
        return self.flushing.prepare(end, segments, segments[-1])

    def flush(self, end, *segments):
        """Runs a flush as a thread does; returns what it made durable."""
        flush = self.prepare(end, *segments)
        flush.run()
        self.flushing.finish(flush)
        return self.files.taken()


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


def test_first_flush_syncs_identity_epochs_and_names(log, tmp_path):
    log.epochs.assign(3, 0)
    assert log.flush(5, log.segment(0)) == [
        f"open {PARTITION_METADATA} to read",
        "sync 0.log",
        f"sync {PARTITION_METADATA}",
        f"sync {LEADER_EPOCHS}.tmp",
        "sync names in t-0",
        "sync names in t-0",
        f"sync names in {tmp_path.name}",
    ]
    assert (log.directory / LEADER_EPOCHS).read_bytes() == format_checkpoint(["3 0"])
    assert log.flushing.flushed_offset == 5


def test_metadata_log_has_no_identity_to_sync(tmp_path):
    log = Log(tmp_path, has_id=False)
    assert log.flush(5, log.segment(0))[0:2] == ["sync 0.log", "sync names in t-0"]


def test_later_flush_syncs_only_what_has_changed(log):
    segment = log.segment(0)
    log.flush(5, segment)
    assert log.flush(6, segment) == ["sync 0.log"]
    log.flushing.names_changed()
    assert log.flush(7, segment) == ["sync 0.log", "sync names in t-0"]
    log.epochs.assign(4, 7)
    assert log.flush(8, segment) == ["sync 0.log", f"sync {LEADER_EPOCHS}.tmp", "sync names in t-0"]
    assert log.flush(9, segment) == ["sync 0.log"]


def test_rolled_segments_are_synced_with_their_indexes(log):
    """The indexes of the active segment are rebuilt after a crash, except for its aborted transactions."""
    first = log.segment(0)
    log.flush(5, first)
    absent = log.segment(7, exists=False)
    last = log.segment(9, aborts=True)
    assert log.flush(12, first, absent, last) == [
        "sync 0.log",
        "sync 0.index",
        "sync 0.timeindex",
        "sync 9.log",
        "sync 9.txnindex",
    ]


# -- bytes written since the last flush


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (0, []),
        (MIB, []),
        (MIB + 1, [f"write out 0.log from 100 to {MIB + 101}"]),
    ],
)
def test_many_bytes_are_written_out_before_the_sync(log, more, expected):
    log.flush(5, log.segment(0, 100))
    assert log.flush(6, log.segment(0, 100 + more)) == [*expected, "sync 0.log"]


def test_new_segment_is_written_out_from_its_start(log):
    log.flush(5, log.segment(0, 100))
    first, second = log.segment(0, 100), log.segment(5, MIB + 1)
    assert log.flush(9, first, second)[0] == f"write out 5.log from 0 to {MIB + 1}"


# -- flushes by the kernel


def settled(log, size=100):
    """Returns a log whose next flush is only a sync of its active segment."""
    log.epochs.assign(3, 0)
    log.flush(5, log.segment(0, size))
    return log.segment(0, size)


def test_plain_sync_is_for_the_kernel(log):
    segment = settled(log)
    assert log.flushing.needs_only_a_sync(segment)
    flush = log.prepare(6, segment)
    assert flush.descriptors() == [segment.file.fileno()]
    flush.synced(None)
    assert log.flushing.finish(flush) == 6
    assert log.files.taken() == []


def grown(size):
    return lambda log: log.segment(0, 100 + size)


def changed(change):
    def changing(log):
        change(log)
        return log.segment(0, 100)

    return changing


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (grown(MIB), True),
        (grown(MIB + 1), False),
        (lambda log: log.segment(5, 100), False),
        (changed(lambda log: log.flushing.names_changed()), False),
        (changed(lambda log: log.epochs.assign(4, 5)), False),
        (changed(lambda log: setattr(log.files, "kernel_syncs", False)), False),
    ],
)
def test_kernel_syncs_one_file_with_few_bytes(log, make, expected):
    settled(log)
    assert log.flushing.needs_only_a_sync(make(log)) is expected


def test_first_flush_is_not_for_the_kernel(log):
    segment = log.segment(0)
    assert not log.flushing.needs_only_a_sync(segment)
    assert log.prepare(5, segment).descriptors() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.flushing.names_changed(),
        lambda log: log.epochs.assign(4, 5),
        lambda log: setattr(log.files, "kernel_syncs", False),
    ],
)
def test_kernel_takes_no_flush_with_more_to_do(log, change):
    segment = settled(log)
    change(log)
    assert log.prepare(6, segment).descriptors() is None


@pytest.mark.parametrize(("more", "is_taken"), [(MIB, True), (MIB + 1, False)])
def test_kernel_takes_no_flush_of_many_bytes(log, more, is_taken):
    settled(log)
    found = log.prepare(6, log.segment(0, 100 + more)).descriptors()
    assert (found is not None) is is_taken


def test_kernel_takes_nothing_of_an_offline_directory(log):
    flush = log.prepare(6, settled(log))
    log.health.fail("gone")
    assert flush.descriptors() is None
    with pytest.raises(OSError, match="gone"):
        flush.synced(None)
    assert log.flushing.finish(flush) == 5


def test_kernels_error_takes_the_directory_offline(log):
    flush = log.prepare(6, settled(log))
    with pytest.raises(OSError, match="the disk"):
        flush.synced(OSError(errno.EIO, "the disk is gone"))
    assert log.health.offline == "fsync failed: [Errno 5] the disk is gone"
    assert (flush.done, log.flushing.finish(flush)) == (False, 5)


# -- the end of a flush


def test_failed_flush_leaves_everything_to_the_next(log):
    log.epochs.assign(3, 0)
    segment = log.segment(0)
    failed = log.prepare(5, segment)
    assert log.flushing.finish(failed) == 0
    log.files.taken()
    assert len(log.flush(6, segment)) == 7


def test_flushes_may_end_in_any_order(log):
    settled(log)
    segment = log.segment(0, 100)
    first = log.prepare(6, segment)
    log.flushing.names_changed()
    log.epochs.assign(4, 6)
    second = log.prepare(7, segment)
    for flush in (second, first):
        flush.run()
    assert log.flushing.finish(second) == 7
    assert log.flushing.finish(first) == 7
    assert log.flushing.needs_only_a_sync(segment)
    log.files.taken()
    assert log.flush(8, segment) == ["sync 0.log"]


def test_change_during_flush_waits_for_the_next(log):
    segment = settled(log)
    flush = log.prepare(6, segment)
    log.flushing.names_changed()
    log.epochs.assign(4, 6)
    flush.run()
    log.flushing.finish(flush)
    assert not log.flushing.needs_only_a_sync(segment)
    log.files.taken()
    assert log.flush(7, segment) == [
        "sync 0.log",
        f"sync {LEADER_EPOCHS}.tmp",
        "sync names in t-0",
        "sync names in t-0",
    ]


def test_names_alone_do_not_make_the_directory_durable(log):
    """The directory's own name is synced with its parent directory."""
    segment = log.segment(0)
    flush = log.prepare(5, segment)
    flush.directories.remove(log.directory.parent)
    flush.run()
    log.flushing.finish(flush)
    assert not log.flushing.needs_only_a_sync(segment)
    log.flushing.emptied(9)
    assert log.flushing.flushed_offset == 5
    log.flush(5, segment)
    log.flushing.emptied(9)
    assert log.flushing.flushed_offset == 9


def test_deleted_partition_has_no_names_to_write(log):
    log.epochs.assign(3, 0)
    flush = log.prepare(5, log.segment(0))
    with log.flushing.names.taken_away():
        assert log.flushing.names.lock.locked()
    flush.run()
    assert log.files.taken()[1:] == ["sync 0.log", f"sync {PARTITION_METADATA}"]
    assert not (log.directory / LEADER_EPOCHS).exists()
    assert flush.done


@pytest.mark.parametrize(("offset", "expected"), [(4, 4), (5, 5), (6, 6), (9, 8)])
def test_truncation_lowers_flushes_under_way(log, offset, expected):
    segment = settled(log)
    flush = log.prepare(8, segment)
    log.flushing.touched = False
    log.flushing.lower(offset)
    assert log.flushing.flushed_offset == min(5, offset)
    assert log.flushing.touched
    flush.run()
    assert log.flushing.finish(flush) == max(expected, min(5, offset))


def test_finished_flush_is_not_lowered(log):
    segment = settled(log)
    flush = log.prepare(8, segment)
    log.flushing.finish(flush)
    log.flushing.finish(flush)
    log.flushing.lower(4)
    assert flush.end_offset == 8


# -- failures


def test_unopenable_file_takes_the_directory_offline(log):
    segment = log.segment(0)

    def refuse():
        raise OSError(errno.EMFILE, "too many files")

    other = log.segment(5)
    segment.index_files = refuse
    with pytest.raises(OSError, match="too many files"):
        log.prepare(9, segment, other)
    assert log.health.offline == f"opening files of {log.directory}: [Errno 24] too many files"
    with pytest.raises(OSError, match="too many files"):
        log.prepare(9, other)


def test_failed_sync_takes_the_directory_offline(log, monkeypatch):
    def fail(file):
        raise OSError(errno.EIO, "the disk is gone")

    flush = log.prepare(5, log.segment(0))
    monkeypatch.setattr(log.files, "fdatasync", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        flush.run()
    assert log.health.offline == "fsync failed: [Errno 5] the disk is gone"
    assert (flush.done, log.flushing.finish(flush)) == (False, 0)
