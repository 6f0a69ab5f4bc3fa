"""Partitions that a directory forgets or receives, and the entries that its checkpoints then must not contain."""

from __future__ import annotations

import errno

import pytest

from tests.log.directories.test_aside_replicas import OTHER, OURS, Rig
from tests.log.directories.test_directory_rules import SMALL, T0, T1, TOPIC_ID
from tests.log.helpers import fill
from tests.log.recorded_files import RecordedFiles
from trimaran.log.directories.clean_shutdown import write_marker
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.directories.offset_checkpoints import OffsetCheckpoints
from trimaran.log.disk.checkpoints import (
    HIGH_WATERMARKS,
    LEADER_EPOCHS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    WRITTEN_LOGS,
    format_checkpoint,
    read_offsets,
)
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.durability.health import DirectoryHealth
from trimaran.wire.errors import KafkaError


@pytest.fixture
def directory(tmp_path):
    MetaProperties("cluster", 11, bytes(range(16))).save(tmp_path)
    directory = LogDirectory(tmp_path)
    yield directory
    directory.close(broker_epoch=None)


def test_forgotten_partition_keeps_its_directory(directory):
    log = fill(directory.create_log(T0, TOPIC_ID, SMALL), 3)
    directory.create_log(T1, TOPIC_ID, SMALL)
    log.flush()
    directory.save_checkpoints()
    directory.forget(T0)
    assert directory.partitions() == {T1}
    assert (directory.path / "t-0").exists()
    assert T0 not in directory.offsets.recovery_points
    assert repr(directory) == f"{directory.path}: 1 partitions, 1 open"


def test_moved_replica_is_flushed_up_to_its_end(directory):
    directory.futures.open(T0, TOPIC_ID, SMALL).close()
    directory.promote_future(T0, start_offset=4, end_offset=9)
    assert (directory.partitions(), len(directory.futures)) == ({T0}, 0)
    offsets = directory.offsets
    assert (offsets.recovery_points[T0], offsets.log_starts[T0]) == (9, 4)


class Dying(RecordedFiles):
    """Renames of partitions fail once `is_dead`."""

    is_dead = False
    number = errno.EIO

    def rename(self, source, target):
        if self.is_dead and not source.name.endswith(".tmp"):
            raise OSError(self.number, "the disk is gone")
        super().rename(source, target)


def recorded(path):
    MetaProperties("cluster", 11, bytes(range(16))).save(path)
    files = Dying()
    return LogDirectory(path, files=files), files


def test_name_of_source_is_durable_after_the_move(tmp_path):
    """The log is not flushed: its records are in the other directory."""
    directory, files = recorded(tmp_path)
    log = fill(directory.create_log(T0, TOPIC_ID, SMALL), 3)
    files.taken()
    directory.hand_over(T0)
    renamed, synced = files.taken()
    assert renamed.startswith("rename t-0 to t-0.")
    assert synced == f"sync names in {tmp_path.name}"
    assert (log.is_closed, log.flushed_offset, T0 in directory) == (True, 0, False)
    directory.close(broker_epoch=None)


def test_copy_that_cannot_be_renamed_is_no_replica(tmp_path):
    directory, files = recorded(tmp_path)
    directory.futures.open(T0, TOPIC_ID, SMALL).close()
    files.is_dead = True
    with pytest.raises(KafkaError, match="the disk is gone"):
        directory.promote_future(T0, start_offset=4)
    assert (T0 in directory, list(directory.futures)) == (False, [T0])
    assert read_offsets(tmp_path / LOG_START_OFFSETS) == {T0: 4}, "it is noted before"
    directory.close(broker_epoch=None)


def test_source_that_keeps_its_name_is_a_failure(tmp_path):
    """The next start would find two replicas of the partition."""
    directory, files = recorded(tmp_path)
    directory.create_log(T0, TOPIC_ID, SMALL)
    files.is_dead, files.number = True, errno.EBUSY
    with pytest.raises(KafkaError, match="the disk is gone"):
        directory.hand_over(T0)
    assert directory.offline is not None
    directory.close(broker_epoch=None)


def test_replica_that_replaces_damaged_one_is_served(directory):
    fill(directory.create_log(T0, TOPIC_ID, SMALL), 3)
    directory.take_out(T0, "it is damaged")
    directory.delete_log(T0)
    directory.futures.open(T0, TOPIC_ID, SMALL).close()
    directory.promote_future(T0)
    assert directory.open_log(T0, SMALL).log_end_offset == 0


def test_each_log_is_a_step_of_checkpoints(directory):
    for key in (T0, T1):
        directory.create_log(key, TOPIC_ID, SMALL)
    directory.open_log(T0, SMALL).begin_epoch(3)
    fill(directory.open_log(T0, SMALL), 1)
    steps = directory.collecting({T0: 2})
    assert list(steps) == [1, 1]
    assert directory.collect_checkpoints({T0: 2}).files == {
        WRITTEN_LOGS: {T0: 0},
        RECOVERY_POINTS: {T0: 0, T1: 0},
        LOG_START_OFFSETS: {T0: 0, T1: 0},
        HIGH_WATERMARKS: {T0: 2},
    }


@pytest.mark.parametrize(("was_clean", "expected"), [(True, []), (False, [T0, T1])])
def test_unopened_logs_are_checked_only_after_crash(tmp_path, was_clean, expected):
    directory, _ = recorded(tmp_path)
    for key in (T1, T0):
        fill(directory.create_log(key, TOPIC_ID, SMALL), 3).flush()
    directory.close(broker_epoch=1 if was_clean else None)
    loaded = []
    for broker_epoch in (None, 1):
        assert loaded == [], "a crash checks nothing"
        directory = LogDirectory(tmp_path)
        load = directory._load
        directory._load = lambda key, config, load=load: loaded.append(key) or load(key, config)
        directory.close(broker_epoch=broker_epoch)
        if was_clean:
            write_marker(tmp_path, 1, REAL_FILES)
    assert (loaded, repr(directory)) == (expected, f"{tmp_path}: 2 partitions, 0 open")
    again = LogDirectory(tmp_path)
    assert again.clean_shutdown
    again.close(broker_epoch=None)


def test_replica_of_another_topic_is_found_for_it(tmp_path):
    rig = Rig(tmp_path)
    theirs = rig.aside(T0, OTHER)
    assert rig.replicas.copy_of(T0, OURS) is None
    assert rig.replicas.copy_of(T0, OTHER) == theirs


class Failing(Files):
    """A log with leader epochs that cannot be read."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def read_bytes(self, path):
        if path.name == LEADER_EPOCHS:
            raise OSError(self.number, "refused")
        return super().read_bytes(path)


def damaged_starts(path):
    (path / LOG_START_OFFSETS).write_bytes(b"damaged")
    (path / "t-0").mkdir()
    (path / "t-0" / LEADER_EPOCHS).write_bytes(format_checkpoint(["3 7"]))
    return path


def test_failing_disk_restores_no_starts(tmp_path):
    path = damaged_starts(tmp_path)
    with pytest.raises(OSError, match="refused"):
        OffsetCheckpoints(path, Failing(errno.EIO), DirectoryHealth(), {T0})
    found = OffsetCheckpoints(path, Failing(errno.EACCES), DirectoryHealth(), {T0})
    assert found.log_starts == {}


class Listing(Files):
    """A log with segments that cannot be listed."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def list_directory(self, path):
        raise OSError(self.number, "refused")


def test_unreadable_partition_does_not_hide_other_starts(tmp_path):
    path = damaged_starts(tmp_path)
    with pytest.raises(OSError, match="refused"):
        OffsetCheckpoints(path, Listing(errno.EIO), DirectoryHealth(), {T0})
    found = OffsetCheckpoints(path, Listing(errno.ENOTDIR), DirectoryHealth(), {T0})
    assert found.log_starts == {}


@pytest.mark.parametrize("begins_first", [False, True])
def test_each_change_makes_older_checkpoints_stale(directory, begins_first):
    log = fill(directory.create_log(T0, TOPIC_ID, SMALL), 3)
    log.flush()
    directory.save_checkpoints({T0: 9})
    directory.forget(T0)
    offsets = directory.offsets
    collected = offsets.collect({})
    changes = [lambda: offsets.begin(T0), lambda: offsets.note_log_start(T1, 4)]
    for change in changes if begins_first else changes[::-1]:
        change()
        assert not offsets.write(collected)
