"""The names in a log directory, the logs that a thread must check, and the damage that is noted for the next start."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest

from tests.log.helpers import SMALL, fill
from trimaran.log.directories.directory import CLUSTER_METADATA, LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties, MetaPropertiesError
from trimaran.log.disk.damage_note import note_damage, noted_damage
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.partition_metadata import FILE_NAME, format_partition_metadata
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import (
    DELETE_SUFFIX,
    STRAY_SUFFIX,
    aside_name,
    future_name,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LONG = TopicPartition("x" * 249, 0)


@pytest.fixture
def path(tmp_path):
    MetaProperties("cluster", 11, bytes(range(16))).save(tmp_path)
    return tmp_path


def replica(path, name):
    (path / name).mkdir()
    (path / name / FILE_NAME).write_bytes(format_partition_metadata(TOPIC_ID))
    return path / name


def crashed(path, *keys):
    """Returns a directory with some flushed records of each partition, after a crash."""
    directory = LogDirectory(path)
    for key in keys:
        topic_id = None if key == CLUSTER_METADATA else TOPIC_ID
        fill(directory.create_log(key, topic_id, SMALL), 3).flush()
    directory.save_checkpoints()
    directory.close(broker_epoch=None)
    return LogDirectory(path)


def damage(path, key):
    segment = path / str(key) / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[16] ^= 1  # the magic of the first batch
    segment.write_bytes(data)


def refused(directory, key):
    with pytest.raises(KafkaError) as caught:
        directory.open_log(key, SMALL)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    return caught.value.message


# -- names


def test_each_name_has_its_kind(path):
    for name in ("t-0", "t-1", str(CLUSTER_METADATA)):
        replica(path, name)
    deleted = replica(path, aside_name(U0, DELETE_SUFFIX))
    stray = replica(path, aside_name(TopicPartition("v", 0), STRAY_SUFFIX))
    replica(path, future_name(TopicPartition("w", 0)))
    for name in ("lost+found", "x-y-delete", "x-0-stray", "x-0-future"):
        (path / name).mkdir()
    directory = LogDirectory(path)
    assert directory.partitions() == {T0, T1}
    assert (CLUSTER_METADATA in directory, U0 in directory) == (True, False)
    assert list(directory.futures) == [("w", 0)]
    assert directory.replicas == 4
    assert directory.aside.copy_of(U0, TOPIC_ID) == deleted
    assert directory.aside.copy_of(TopicPartition("v", 0), TOPIC_ID) == stray
    assert T0 not in directory.aside
    assert repr(directory) == f"{path}: 3 partitions, 0 open"
    directory.purge()
    assert (deleted.exists(), stray.exists()) == (False, True)
    directory.close(broker_epoch=1)


def test_missing_directory_is_not_formatted(path):
    with pytest.raises(MetaPropertiesError, match="missing does not exist: it is not formatted"):
        LogDirectory(path / "missing")


def test_stray_of_this_process_is_known_as_well(path):
    directory = LogDirectory(path)
    directory.create_log(T0, TOPIC_ID, SMALL)
    directory.put_aside(T1)
    directory.put_aside(T0)
    (name,) = (name for name in os.listdir(path) if name.endswith(STRAY_SUFFIX))
    assert directory.aside.copy_of(T0, TOPIC_ID) == path / name
    directory.close(broker_epoch=1)


def test_name_too_long_for_a_move_is_invalid(path):
    directory = LogDirectory(path)
    with pytest.raises(KafkaError) as caught:
        directory.futures.open(LONG, TOPIC_ID, SMALL)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (LONG in directory.futures, directory.replicas, directory.offline) == (False, 0, None)
    directory.close(broker_epoch=1)


def test_given_health_is_shared_by_all(path):
    health = DirectoryHealth()
    directory = LogDirectory(path, health=health)
    log = directory.create_log(T0, TOPIC_ID, SMALL)
    assert directory.health is log.health is health
    directory.close(broker_epoch=1)


@pytest.mark.parametrize("broker_epoch", [1, None])
def test_watermark_without_directory_is_lost_by_crash(path, broker_epoch):
    """The partition was deleted after the file was written. After a clean stop, its directory may be created later."""
    directory = LogDirectory(path)
    directory.create_log(T0, TOPIC_ID, SMALL)
    directory.save_checkpoints({T0: 3, T1: 5})
    directory.close(broker_epoch=broker_epoch, high_watermarks={T0: 3, T1: 5})
    directory = LogDirectory(path)
    assert [directory.high_watermark(key) for key in (T0, T1)] == [3, 5 if broker_epoch else 0]
    directory.close(broker_epoch=1)


# -- checks


def test_written_logs_are_unsettled_in_order(path):
    keys = [TopicPartition(name, index) for name in "abc" for index in range(3)]
    directory = crashed(path, *keys[::-1])
    assert directory.unsettled() == keys
    directory.close(broker_epoch=1)


def test_unopened_log_must_be_checked_after_crash(path):
    directory = crashed(path, T0, T1, U0)
    damage(path, U0)
    missing = TopicPartition("missing", 0)
    keys = (T0, T1, U0, missing)
    assert [directory.must_check(key) for key in keys] == [True, True, True, False]
    directory.open_log(T0, SMALL)
    directory.check_log(T1, SMALL)
    refused(directory, U0)
    directory.check_log(missing, SMALL)
    assert [directory.must_check(key) for key in keys] == [False] * 4
    directory.open_log(T1, SMALL)
    assert not directory.must_check(T1)
    directory.close(broker_epoch=1)


def test_checked_log_is_ready_with_todays_config(path):
    directory = crashed(path, T0)
    directory.check_log(T0, SMALL)
    [checked] = directory._checked.values()
    config = replace(SMALL, segment_bytes=3000)
    log = directory.open_log(T0, config)
    assert (log.config, log.knows_producers, log.log_start_offset) == (config, True, 0)
    assert directory.open_log(T0, SMALL) is log is checked
    assert directory._checked == {}
    directory.close(broker_epoch=1)


def test_log_without_checkpoint_may_be_empty(path):
    LogDirectory(path).close(broker_epoch=None)
    directory = LogDirectory(path)
    directory.create_log(T0, TOPIC_ID, SMALL)
    directory.close(broker_epoch=None)
    directory = LogDirectory(path)
    log = directory.open_log(T0, SMALL)
    assert (log.log_end_offset, log.flushed_offset) == (0, 0)
    directory.close(broker_epoch=1)


def test_checked_log_is_closed_with_its_deletion(path):
    directory = crashed(path, T0)
    directory.check_log(T0, SMALL)
    [checked] = directory._checked.values()
    directory.delete_log(T0)
    assert (checked.is_closed, directory._checked) == (True, {})
    assert directory.create_log(T0, TOPIC_ID, SMALL).log_end_offset == 0
    directory.close(broker_epoch=1)


def test_damaged_log_has_the_end_of_empty_log(path):
    directory = crashed(path, T0, U0)
    damage(path, U0)
    assert [directory.end_of(key) for key in (T0, U0)] == [(0, 9), (-1, -1)]
    assert not directory.must_check(T0)
    assert directory.open_log(T0, SMALL).log_end_offset == 9
    refused(directory, U0)
    directory.health.fail("the disk is gone")
    with pytest.raises(KafkaError, match="the disk is gone"):
        directory.end_of(U0)
    directory.close(broker_epoch=None)


def test_log_need_not_be_checked_after_clean_stop(path, monkeypatch):
    directory = crashed(path, T0)
    directory.close(broker_epoch=1)
    directory = LogDirectory(path)
    assert not directory.must_check(T0)
    monkeypatch.setattr("trimaran.log.segments.recovery.READ_AT_ONCE_BYTES", 0)
    assert directory.must_check(T0), "its producers must be read"
    directory.close(broker_epoch=1)


def test_offline_directory_opens_no_log(path):
    directory = LogDirectory(path)
    directory.create_log(T0, TOPIC_ID, SMALL)
    directory.health.fail("the disk is gone")
    for key in (T0, T1):
        with pytest.raises(KafkaError, match="the disk is gone"):
            directory.open_log(key, SMALL)
    directory.close(broker_epoch=1)
    directory = LogDirectory(path)
    assert not directory.clean_shutdown
    directory.close(broker_epoch=None)


class Listing(Files):
    """Directories cannot be listed while `error` is set."""

    error = None

    def list_directory(self, path):
        if self.error is not None:
            raise OSError(self.error, "refused")
        return super().list_directory(path)


def test_sizes_are_those_of_segments(path):
    files = Listing()
    directory = LogDirectory(path, files=files)
    fill(directory.create_log(T0, TOPIC_ID, SMALL), 3)
    log = path / "t-0" / f"{0:020d}.log"
    assert directory.segment_files(T0) == [REAL_FILES.status(log)]
    assert directory.segment_files(T1) == [], "it was deleted meanwhile"
    files.error = errno.EACCES
    assert directory.segment_files(T0) == []
    files.error = errno.EIO
    with pytest.raises(OSError, match="refused"):
        directory.segment_files(T0)
    files.error = None
    directory.close(broker_epoch=1)


def test_marker_has_the_known_broker_epoch(path):
    for own, given, expected in ((7, -1, 7), (7, 9, 9), (-1, -1, -1)):
        directory = LogDirectory(path)
        directory.broker_epoch = own
        directory.close(broker_epoch=given)
        directory = LogDirectory(path)
        assert directory.previous_broker_epoch == expected
        directory.close(broker_epoch=None)


def test_noted_damage_is_read_once(path):
    directory = crashed(path, T0)
    note_damage(path / "t-0", "it is damaged", REAL_FILES)
    assert refused(directory, T0) == "it is damaged"
    (path / "t-0" / "damaged").unlink()
    assert refused(directory, T0) == "it is damaged"
    directory.try_again(T0)
    assert directory.open_log(T0, SMALL).log_end_offset == 9
    directory.close(broker_epoch=1)


# -- damage


@pytest.mark.parametrize(("key", "is_noted"), [(T0, True), (CLUSTER_METADATA, False)])
def test_damage_after_crash_is_noted(path, key, is_noted):
    """Damage in the metadata log is not noted, because the node fetches that log again."""
    directory = crashed(path, key)
    damage(path, key)
    reason = refused(directory, key)
    assert noted_damage(path / str(key), REAL_FILES) == (reason if is_noted else None)
    assert refused(directory, key) == reason
    directory.close(broker_epoch=1)


def test_log_taken_out_is_refused_after_restart(path):
    directory = LogDirectory(path)
    log = fill(directory.create_log(T0, TOPIC_ID, SMALL), 3)
    log.flush()
    fill(log, 1)
    log.delete_records_before(2)
    directory.take_out(T0, "it is damaged")
    assert (log.is_closed, log.flushed_offset, T0 in directory) == (True, 9, True)
    assert (directory.offsets.recovery_points[T0], directory.offsets.log_starts[T0]) == (9, 2)
    assert noted_damage(path / "t-0", REAL_FILES) == "it is damaged"
    assert refused(directory, T0) == "it is damaged"
    directory.close(broker_epoch=1)
    directory = LogDirectory(path)
    assert refused(directory, T0) == "it is damaged"
    assert directory.offline is None
    directory.close(broker_epoch=1)


class Unreadable(Files):
    """A file layer; while `name` is set, files of that name cannot be opened."""

    name = None
    number = errno.EACCES

    def open(self, path, **how):
        if path.name == self.name:
            raise OSError(self.number, "Permission denied", str(path))
        return super().open(path, **how)


def test_unreadable_log_is_refused_without_a_note(path):
    """The next start either has the same problem, or the problem has been resolved."""
    crashed(path, T0).close(broker_epoch=None)
    files = Unreadable()
    directory = LogDirectory(path, files=files)
    files.name = f"{0:020d}.log"
    reason = refused(directory, T0)
    assert noted_damage(path / "t-0", REAL_FILES) is None
    files.name = None
    assert refused(directory, T0) == reason
    directory.try_again(T0)
    assert directory.open_log(T0, SMALL).log_end_offset == 9
    assert directory.offline is None
    directory.close(broker_epoch=1)


def test_log_taken_out_without_a_note_is_refused(path):
    files = Unreadable()
    directory = LogDirectory(path, files=files)
    directory.create_log(T0, TOPIC_ID, SMALL)
    files.name = "damaged.tmp"
    with pytest.raises(KafkaError, match="Permission denied"):
        directory.take_out(T0, "it is damaged")
    assert (refused(directory, T0), directory.offline) == ("it is damaged", None)
    directory.close(broker_epoch=1)


def test_disk_that_fails_in_last_checks_is_unclean(path):
    crashed(path, T0).close(broker_epoch=None)
    files = Unreadable()
    directory = LogDirectory(path, files=files)
    files.name, files.number = f"{0:020d}.log", errno.EIO
    directory.close(broker_epoch=1)
    assert directory.offline is not None
    directory = LogDirectory(path)
    assert not directory.clean_shutdown
    directory.check_log(T0, SMALL)
    [checked] = directory._checked.values()
    directory.close(broker_epoch=1)
    assert (checked.is_closed, directory._checked) == (True, {})


@pytest.mark.parametrize("delay_ms", [None, 0])
def test_purge_removes_segments_and_replicas(path, delay_ms):
    directory = LogDirectory(path)
    log = fill(directory.create_log(T0, TOPIC_ID, SMALL), 40)
    directory.create_log(T1, TOPIC_ID, SMALL)
    log.delete_records_before(log.log_end_offset)
    assert log.apply_retention(0, log.log_end_offset) > 0
    directory.delete_log(T1)
    [deleted] = path.glob("t-1.*")
    assert list(deleted.iterdir()) == [], "without its topic id"
    assert list((path / "t-0").glob("*.deleted"))
    directory.purge(delay_ms)
    assert [*(path / "t-0").glob("*.deleted"), *path.glob("t-1.*")] == []
    directory.close(broker_epoch=1)


def test_moved_namesake_has_its_own_id(path):
    directory, other = LogDirectory(path), bytes(16)[:15] + b"x"
    directory.create_log(T0, TOPIC_ID, SMALL)
    assert directory.topic_id(T0) == TOPIC_ID
    directory.delete_log(T0)
    directory.futures.open(T0, other, SMALL).close()
    directory.promote_future(T0)
    assert directory.topic_id(T0) == other
    directory.close(broker_epoch=1)
