"""Replicas that move into a log directory: they are copied, continued or cancelled, and renamed to their partition."""

import errno
import os

import pytest

from tests.log.helpers import SMALL, append, fill
from tests.log.recorded_files import RecordedFiles
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.future_replicas import FutureReplicas
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.disk.partition_metadata import make_partition_directory
from trimaran.log.durability.flush import Names
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import future_name
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))


def test_replica_moves_in_and_is_always_complete(tmp_path):
    """The replica is copied into `-future`, the copy is renamed to the partition, and then the source is renamed away:
    at each moment one of the two is complete.
    """
    source, target = make(tmp_path / "a", 1), make(tmp_path / "b", 2)
    log = fill(source.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 10)
    future = target.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL)
    assert list(target.futures) == [("t", 0)]
    assert ("t", 0) not in target
    assert [name.endswith("-future") for name in os.listdir(tmp_path / "b") if "t-0" in name] == [
        True
    ]
    future.append_as_follower(memoryview(log.read_bytes(0, 1 << 20, upto_offset=30)))
    future.close()
    target.promote_future(TopicPartition("t", 0))
    source.hand_over(TopicPartition("t", 0))
    assert (("t", 0) in source, ("t", 0) in target) == (False, True)
    assert target.topic_id(TopicPartition("t", 0)) == TOPIC_ID
    moved = target.open_log(TopicPartition("t", 0), SMALL)
    assert (moved.log_end_offset, moved.topic_partition) == (30, ("t", 0))
    append(moved)
    for directory in (source, target):
        directory.close(broker_epoch=1)


def test_moved_replica_inherits_no_deleted_partitions_checkpoints(tmp_path):
    """The process dies before the next checkpoints: entries of the old partition would look like lost data."""
    target = make(tmp_path / "b", 2)
    fill(target.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 30).flush()
    target.save_checkpoints()
    target.delete_log(TopicPartition("t", 0))
    future = fill(target.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL), 10)
    future.close()
    target.promote_future(TopicPartition("t", 0), end_offset=30)
    target._lock.release()
    target = LogDirectory(tmp_path / "b")
    assert target.open_log(TopicPartition("t", 0), SMALL).log_end_offset == 30
    target.close(broker_epoch=None)


def test_deleted_records_stay_deleted_after_crash_following_move(tmp_path):
    """Records are deleted up to the middle of a batch, which is copied completely."""
    target = make(tmp_path / "b", 2)
    future = fill(target.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL), 10)
    future.flush()
    future.close()
    written_before = target.collect_checkpoints({})
    target.promote_future(TopicPartition("t", 0), start_offset=1, end_offset=30)
    target.write_checkpoints(written_before)
    target._lock.release()
    target = LogDirectory(tmp_path / "b")
    assert target.open_log(TopicPartition("t", 0), SMALL).log_start_offset == 1
    target.close(broker_epoch=None)


def test_stray_copy_and_foreign_topics_copy_are_removed(tmp_path):
    directory = make(tmp_path / "b", 2)
    future = fill(directory.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL), 10)
    future.flush()
    name = future.directory.name
    directory.close(broker_epoch=None)
    with (tmp_path / "b" / name / "00000000000000000000.log").open("ab") as file:
        file.write(b"torn")
    (tmp_path / "b" / ("t-0." + "0" * 32 + "-future")).mkdir()
    directory = LogDirectory(tmp_path / "b")
    assert list(directory.futures) == [("t", 0)]
    again = directory.futures.open(TopicPartition("t", 0), bytes(range(16)), SMALL)
    assert again.log_end_offset == 0, "of another topic: it begins anew"
    directory.close(broker_epoch=None)


def test_future_replica_is_checked_and_continued(tmp_path):
    directory = make(tmp_path / "b", 2)
    future = directory.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL)
    assert not directory.futures.has_records(TopicPartition("t", 0))
    fill(future, 10).flush()
    assert directory.futures.has_records(TopicPartition("t", 0))
    directory.close(broker_epoch=None)
    with future.active_segment.path(".log").open("ab") as file:
        file.write(b"torn")
    directory = LogDirectory(tmp_path / "b")
    assert directory.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL).log_end_offset == 30
    directory.futures.drop(TopicPartition("t", 0))
    assert list(directory.futures) == []
    directory.purge()
    assert not [name for name in os.listdir(tmp_path / "b") if name.startswith("t-0")]
    directory.close(broker_epoch=None)


@pytest.mark.parametrize("is_lost", [True, False])
def test_copy_with_damaged_or_lost_id_stays(tmp_path, is_lost):
    """The copy may be the only remaining one of the replica."""
    directory = make(tmp_path / "b", 2)
    future = fill(directory.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL), 10)
    future.flush()
    directory.close(broker_epoch=None)
    metadata = future.directory / "partition.metadata"
    metadata.unlink() if is_lost else os.truncate(metadata, 20)
    directory = LogDirectory(tmp_path / "b")
    for call in (directory.futures.is_of, directory.futures.open):
        with pytest.raises(KafkaError, match=r"partition\.metadata is (damaged|missing)"):
            call(TopicPartition("t", 0), TOPIC_ID, *[SMALL] * (call == directory.futures.open))
    directory.purge()
    assert list(directory.futures) == [("t", 0)]
    assert metadata.parent.exists()
    assert directory.offline is None
    directory.close(broker_epoch=None)


def make(path, number):
    path.mkdir()
    MetaProperties("Vk_zJvdfRf6PsrkaTDAJ-A", 11, bytes([number] * 16)).save(path)
    return LogDirectory(path)


# -- future replicas alone, without the rest of their log directory

OTHER_ID = bytes(range(50, 66))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Dying(RecordedFiles):
    """Renames fail while `is_dead`."""

    is_dead = False

    def rename(self, source, target):
        if self.is_dead:
            raise OSError(errno.EIO, "the disk is gone")
        super().rename(source, target)


class Rig:
    """The copies in a log directory."""

    def __init__(self, path):
        self.path, self.files, self.deleted, self.health = path, Dying(), {}, DirectoryHealth()
        self.copies = FutureReplicas(path, self.files, self.health, lambda: 0, self.deleted)

    def left(self, key, topic_id=TOPIC_ID):
        """Returns a copy that an earlier process left."""
        directory = self.path / future_name(key)
        make_partition_directory(directory, topic_id, self.files)
        self.copies.note(directory.name)
        return directory


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_first_copy_of_each_partition_is_continued(rig):
    of_one, of_zero, again = rig.left(T1), rig.left(T0), rig.left(T1)
    rig.copies.note("lost+found")
    assert (list(rig.copies), len(rig.copies)) == ([T0, T1], 2)
    assert [rig.copies.directory(key) for key in (T0, T1)] == [of_zero, of_one]
    assert rig.deleted == {again: None}


@pytest.mark.parametrize(
    ("state", "stays"),
    [("left", False), ("foreign", True), ("opening", True), ("open", True), ("closed", False)],
)
def test_only_a_copy_without_a_move_is_dropped(rig, state, stays):
    rig.copies.drop_left(T0, TOPIC_ID)
    rig.left(T0, OTHER_ID if state == "foreign" else TOPIC_ID)
    if state == "opening":
        rig.copies._opened[T0] = None
    elif state in ("open", "closed"):
        log = rig.copies.open(T0, TOPIC_ID, SMALL)
        if state == "closed":
            log.close()
    rig.copies.drop_left(T0, TOPIC_ID)
    assert (T0 in rig.copies, len(rig.deleted)) == (stays, not stays)
    rig.copies.drop_left(T0, TOPIC_ID)


def test_copy_that_cannot_be_opened_may_be_dropped(rig):
    (rig.left(T0) / f"{0:020}.log").mkdir()
    with pytest.raises(KafkaError):
        rig.copies.open(T0, TOPIC_ID, SMALL)
    assert rig.health.offline is None
    rig.copies.drop_left(T0, TOPIC_ID)
    assert T0 not in rig.copies


def test_copy_with_unremovable_name_is_kept(rig):
    rig.left(T0)
    rig.files.is_dead = True
    with pytest.raises(KafkaError, match="the disk is gone"):
        rig.copies.drop(T0)
    assert (list(rig.copies), rig.deleted) == ([T0], {})


def test_name_of_promoted_copy_is_durable(rig):
    log = rig.copies.open(T0, TOPIC_ID, SMALL)
    log.close()
    rig.files.taken()
    rig.copies.promote(T0, rig.path / "t-0")
    assert rig.files.taken() == [
        f"rename {log.directory.name} to t-0",
        f"sync names in {rig.path.name}",
    ]
    assert (list(rig.copies), rig.copies._opened) == ([], {})


def test_copy_of_another_topic_is_dropped_without_id(rig):
    """A copy of another topic is not the last copy of any replica."""
    theirs = rig.left(T0, OTHER_ID)
    log = rig.copies.open(T0, TOPIC_ID, SMALL)
    assert not theirs.exists()
    [dropped] = rig.deleted
    assert (dropped.name.endswith("-delete"), list(dropped.iterdir())) == (True, [])
    assert rig.copies.directory(T0) == log.directory != dropped
    log.close()


@pytest.mark.parametrize("is_given", [False, True])
def test_names_of_dropped_copy_are_taken_away(rig, is_given):
    rig.left(T0)
    names = Names()
    rig.copies.drop(T0, *[names] * is_given)
    assert (names.gone, list(rig.copies)) == (is_given, [])
    rig.copies.drop(T0, names)
    assert len(rig.deleted) == 1
