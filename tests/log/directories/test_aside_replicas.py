"""Directories that an earlier process renamed: those to remove, and those that may be the last copy of a replica."""

from __future__ import annotations

import errno

import pytest

from trimaran.log.directories.aside_replicas import (
    UNCUT_CHARS,
    AsideReplicas,
    ReplicaToRemove,
    forget_topic_id,
)
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.partition_metadata import FILE_NAME, format_partition_metadata
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.names import DELETE_SUFFIX, STRAY_SUFFIX, aside_name
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import TopicIdPartition, TopicPartition

OURS, OTHER = b"o" * 16, b"p" * 16
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LONG = TopicPartition("x" * 249, 0)
# A damaged id: the log may belong to any topic.
DAMAGED = b"version: 0\ntopic_id: ???????????????????????\ncrc32c: 00000000\n"


class Rig:
    """A log directory in which `aside` puts renamed replicas."""

    def __init__(self, path, files=REAL_FILES):
        self.path, self.health, self.deleted = path, DirectoryHealth(), {}
        self.replicas = AsideReplicas(path, files, self.health, self.deleted)

    def aside(self, key, metadata, suffix=DELETE_SUFFIX, *, is_deleted=True):
        name = aside_name(key, suffix)
        directory = self.path / name
        directory.mkdir()
        (directory / "00000000000000000000.log").write_bytes(b"records")
        if isinstance(metadata, bytes):
            is_id = len(metadata) == 16
            text = format_partition_metadata(metadata) if is_id else metadata
            (directory / FILE_NAME).write_bytes(text)
        if is_deleted:
            self.deleted[directory] = None
        self.replicas.note(name)
        return directory


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


def test_only_noted_partitions_have_a_copy(rig):
    assert (T0 in rig.replicas, LONG in rig.replicas) == (False, False)
    for name in ("t-0", "t-0.future", "lost+found", "t-0.0-delete"):
        rig.replicas.note(name)
    assert T0 not in rig.replicas
    directory = rig.aside(T0, OURS)
    assert (T0 in rig.replicas, T1 in rig.replicas, U0 in rig.replicas) == (True, False, False)
    assert rig.replicas.copy_of(T0, OURS) == directory
    assert rig.replicas.copy_of(T1, OURS) is None


@pytest.mark.parametrize(
    ("length", "may_be_cut"),
    [(UNCUT_CHARS - 1, False), (UNCUT_CHARS, False), (UNCUT_CHARS + 1, True)],
)
def test_long_name_may_be_cut_in_directory(rig, length, may_be_cut):
    rig.aside(T0, OURS)
    assert (TopicPartition("y" * length, 0) in rig.replicas) is may_be_cut


@pytest.mark.parametrize("suffix", [DELETE_SUFFIX, STRAY_SUFFIX])
@pytest.mark.parametrize("key", [T0, LONG], ids=["short", "long"])
def test_copy_has_the_id_of_its_topic(rig, key, suffix):
    rig.aside(key, OTHER, suffix)
    rig.aside(key, None, suffix)
    assert rig.replicas.copy_of(key, OURS) is None
    ours = rig.aside(key, OURS, suffix)
    assert rig.replicas.copy_of(key, OURS) == ours
    assert rig.replicas.copy_of(key, OTHER) != ours


def test_replica_with_damaged_id_may_be_anyones(rig):
    directory = rig.aside(T0, DAMAGED)
    assert rig.replicas.copy_of(T0, OURS) == directory
    assert rig.replicas.copy_of(T0, OTHER) == directory
    assert rig.health.offline is None


def test_copy_that_an_operator_moves_away_is_gone(rig):
    directory = rig.aside(T0, OURS)
    assert rig.replicas.copy_of(T0, OURS) == directory
    directory.rename(rig.path / "elsewhere")
    assert rig.replicas.copy_of(T0, OURS) is None


def test_id_of_another_topic_is_read_once(rig):
    """Fetches of an empty replica check it again and again."""
    first, second = rig.aside(T0, OTHER), rig.aside(T0, None)
    assert rig.replicas.copy_of(T0, OURS) is None
    for directory in (first, second):
        (directory / FILE_NAME).write_bytes(format_partition_metadata(OURS))
    assert rig.replicas.copy_of(T0, OURS) is None


def test_file_named_like_replica_is_no_copy(rig):
    name = aside_name(T0, DELETE_SUFFIX)
    (rig.path / name).write_bytes(b"")
    rig.replicas.note(name)
    assert rig.replicas.copy_of(T0, OURS) is None
    assert rig.health.offline is None


def test_removable_replicas_are_listed_in_order(rig):
    """The result omits kept replicas, replicas without an id, and those with a damaged id."""
    of_u = rig.aside(U0, OTHER)
    second, first = rig.aside(T1, OURS), rig.aside(T0, OURS)
    again = rig.aside(T1, OTHER)
    rig.aside(T0, None)
    rig.aside(T0, DAMAGED)
    rig.aside(T0, OURS, STRAY_SUFFIX, is_deleted=False)
    kept = rig.aside(T0, OURS)
    rig.replicas.keep(kept)
    rig.replicas.keep(rig.path / "unknown")
    expected = [
        ReplicaToRemove(TopicIdPartition(OURS, 0), first),
        ReplicaToRemove(TopicIdPartition(OURS, 1), second),
        ReplicaToRemove(TopicIdPartition(OTHER, 1), again),
        ReplicaToRemove(TopicIdPartition(OTHER, 0), of_u),
    ]
    assert rig.replicas.to_be_removed() == expected
    assert kept not in rig.deleted


def test_failing_disk_is_no_missing_copy(tmp_path):
    class Failing(Files):
        def read_bytes(self, path):
            raise OSError(errno.EIO, "the disk is gone")

    rig = Rig(tmp_path, Failing())
    rig.aside(T0, OURS)
    with pytest.raises(KafkaError, match="the disk is gone"):
        rig.replicas.copy_of(T0, OURS)
    with pytest.raises(KafkaError, match="the disk is gone"):
        rig.replicas.to_be_removed()
    assert rig.health.offline is not None


def test_topic_id_is_removed_from_directory_not_link(tmp_path):
    directory, link = tmp_path / "t-0", tmp_path / "link"
    directory.mkdir()
    (directory / FILE_NAME).write_bytes(b"")
    link.symlink_to(directory)
    forget_topic_id(link, REAL_FILES)
    assert (directory / FILE_NAME).exists()
    forget_topic_id(directory, REAL_FILES)
    assert not (directory / FILE_NAME).exists()
