"""Replicas that move into a log directory: they are copied, continued or cancelled, and renamed to their partition."""

import os

import pytest

from tests.log.helpers import SMALL, append, fill
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))


def test_replica_moves_in_and_is_always_complete(tmp_path):
    """It is copied into `-future` and renamed to the partition, and then the source is renamed away: one of them is
    complete at each moment.
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
    fill(directory.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL), 10).flush()
    directory.close(broker_epoch=None)
    directory = LogDirectory(tmp_path / "b")
    assert directory.futures.open(TopicPartition("t", 0), TOPIC_ID, SMALL).log_end_offset == 30
    directory.futures.drop(TopicPartition("t", 0))
    assert list(directory.futures) == []
    directory.purge()
    assert not [name for name in os.listdir(tmp_path / "b") if name.startswith("t-0")]
    directory.close(broker_epoch=None)


@pytest.mark.parametrize("is_lost", [True, False])
def test_copy_with_damaged_or_lost_id_stays(tmp_path, is_lost):
    """It may be the only remaining copy of the replica."""
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
