"""mD8: foreign files in a deleted partition's directory or under a partition's name block nothing, no link is followed,
and a failing disk is still detected.
"""

import errno
import os
import socket

import pytest

from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import SMALL, append, fill, read_all
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.directories.removal import remove_deleted
from trimaran.log.disk.files import Files
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

TOPIC_ID = bytes(range(100, 116))
DELETED = f"t-0.{'0f' * 16}-delete"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log"
    path.mkdir()
    MetaProperties("Vk_zJvdfRf6PsrkaTDAJ-A", 11, bytes(range(16))).save(path)
    return path


class Refusing(FaultyFiles):
    """Raises `error` in every call for `refused`, as for a user without the permission."""

    def __init__(self, refused, error):
        super().__init__()
        self.refused, self.error = refused, error

    def _check(self, path):
        if path == self.refused:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def unlink(self, path):
        self._check(path)
        super().unlink(path)

    def list_directory(self, path):
        self._check(path)
        return super().list_directory(path)

    def rename(self, source, target):
        self._check(source)
        super().rename(source, target)


def make_socket(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(os.path.relpath(path))
    made.close()


KINDS = {
    "file": lambda path: path.write_text("dear"),
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "FIFO": os.mkfifo,
    "socket": make_socket,
}


def elsewhere(path, directory):
    """Moves the partition to another place, and leaves a link, as operators do."""
    directory.close(broker_epoch=1)
    moved = path.parent / "elsewhere"
    (path / "t-0").rename(moved)
    (path / "t-0").symlink_to(moved, target_is_directory=True)
    return moved


def test_deletion_of_linked_partition_removes_only_the_link(path):
    directory = LogDirectory(path)
    batches = read_all(fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 10))
    moved = elsewhere(path, directory)
    directory = LogDirectory(path)
    assert read_all(directory.open_log(TopicPartition("t", 0), SMALL)) == batches
    before = {path: path.read_bytes() for path in moved.iterdir()}
    directory.delete_log(TopicPartition("t", 0))
    directory.purge()
    assert directory.offline is None
    assert not [each_path for each_path in path.iterdir() if each_path.name.startswith("t-0")]
    assert {path: path.read_bytes() for path in moved.iterdir()} == before
    assert directory.create_log(TopicPartition("t", 0), bytes(range(16)), SMALL).log_end_offset == 0
    directory.close(broker_epoch=2)


def test_log_directory_may_be_a_link(path):
    link = path.parent / "link"
    link.symlink_to(path, target_is_directory=True)
    directory = LogDirectory(link)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    directory.delete_log(TopicPartition("t", 0))
    directory.purge()
    directory.close(broker_epoch=1)
    assert not [each_path for each_path in path.iterdir() if each_path.name.startswith("t-0")]


@pytest.mark.parametrize("kind", KINDS)
def test_any_file_named_as_deleted_partition_is_removed(path, kind, monkeypatch):
    monkeypatch.chdir(path)
    KINDS[kind](path / DELETED)
    directory = LogDirectory(path)
    directory.purge()
    assert directory.offline is None
    assert not os.path.lexists(path / DELETED)
    directory.close(broker_epoch=1)


def test_deleted_partition_goes_with_foreign_files_in_it(path, monkeypatch):
    monkeypatch.chdir(path)
    outside = path.parent / "outside"
    (outside / "t-0").mkdir(parents=True)
    (outside / "dear").write_text("dear")
    directory = LogDirectory(path)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    inside = path / "t-0"
    for kind, make in KINDS.items():
        make(inside / kind)
    (inside / "link").symlink_to(outside, target_is_directory=True)
    os.mkdir(os.fsencode(inside) + b"/\xff\xfe")
    os.mkdir(os.fsencode(inside) + b"/\xff\xfe/caf\xe9")
    monkeypatch.chdir(inside)
    for _ in range(1_100):  # deeper than Python's recursion limit
        os.mkdir("d")
        os.chdir("d")
    monkeypatch.chdir(path)
    directory.delete_log(TopicPartition("t", 0))
    directory.purge()
    assert directory.offline is None
    assert sorted(each_path.name for each_path in path.iterdir()) == [".lock", "meta.properties"]
    assert sorted(path.name for path in outside.iterdir()) == ["dear", "t-0"]
    directory.close(broker_epoch=1)


@pytest.mark.parametrize("error", ["EACCES", "EPERM", "EBUSY", "ENOTEMPTY"])
def test_unremovable_file_is_logged_once_and_skipped(path, error, caplog):
    inside = path / DELETED / "another's"
    inside.mkdir(parents=True)
    (path / DELETED / "a").write_text("a")
    for _ in range(2):  # starts
        caplog.clear()
        directory = LogDirectory(path, files=Refusing(inside, getattr(errno, error)))
        log = fill(directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL), 3)
        for _ in range(3):
            directory.purge()
        append(log)
        assert directory.offline is None
        lines = [record.getMessage() for record in caplog.records if DELETED in record.getMessage()]
        assert len(lines) == 1
        assert str(inside) in lines[0]
        directory.close(broker_epoch=1)
    assert os.listdir(path / DELETED) == ["another's"]


def test_disk_error_during_removal_takes_directory_offline(path):
    inside = path / DELETED / "a"
    inside.mkdir(parents=True)
    directory = LogDirectory(path, files=Refusing(inside, errno.EIO))
    with pytest.raises(KafkaError):
        directory.purge()
    assert directory.offline is not None
    directory.close(broker_epoch=1)


def test_complete_removal_logs_nothing(path, caplog):
    (path / DELETED / "a").mkdir(parents=True)
    (path / DELETED / "a" / "b").write_text("b")
    remove_deleted(path / DELETED, Files())
    assert (caplog.records, (path / DELETED).exists()) == ([], False)


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EIO])
def test_directory_that_cannot_be_removed_is_logged(path, caplog, number):
    class Mounted(Files):
        def rmdir(self, path):
            raise OSError(number, "refused", str(path))

    (path / DELETED / "a").mkdir(parents=True)
    if number == errno.EIO:
        with pytest.raises(OSError, match="refused"):
            remove_deleted(path / DELETED, Mounted())
        return
    remove_deleted(path / DELETED, Mounted())
    [line] = [record.getMessage() for record in caplog.records]
    assert str(path / DELETED) in line
    assert f"refused: '{path / DELETED / 'a'}'" in line, "the first error"


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_file_with_partition_name_blocks_only_it(path, kind, monkeypatch):
    """The file may be a link to a disk that is offline now, so no log is created in its place."""
    monkeypatch.chdir(path)
    KINDS[kind](path / "t-0")
    for clean in (True, False):
        directory = LogDirectory(path)
        assert ("t", 0) in directory
        for call in (
            lambda: directory.is_of(TopicPartition("t", 0), TOPIC_ID),  # noqa: B023 - called at once
            lambda: directory.open_log(TopicPartition("t", 0), SMALL),  # noqa: B023 - called at once
            lambda: directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL),  # noqa: B023 - called at once
        ):
            with pytest.raises(KafkaError, match="t-0") as refused:
                call()
            assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert directory.segment_files(TopicPartition("t", 0)) == []
        log = directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL)
        fill(log, 2).flush()
        assert directory.offline is None
        directory.close(broker_epoch=1 if clean else None)
        assert os.path.lexists(path / "t-0")
    directory = LogDirectory(path)
    directory.delete_log(TopicPartition("t", 0))
    directory.purge()
    assert not os.path.lexists(path / "t-0")
    directory.close(broker_epoch=1)


def test_partition_that_cannot_be_renamed_stays_alone(path):
    """The directory is a mount (EBUSY), or a layer of a container's file system (EXDEV)."""
    files = Refusing(None, errno.EBUSY)
    directory = LogDirectory(path, files=files)
    fill(directory.create_log(TopicPartition("t", 0), TOPIC_ID, SMALL), 3)
    fill(directory.create_log(TopicPartition("u", 0), TOPIC_ID, SMALL), 3)
    files.refused = path / "t-0"
    with pytest.raises(KafkaError) as refused:
        directory.delete_log(TopicPartition("t", 0))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    directory.delete_log(TopicPartition("u", 0))
    directory.purge()
    assert directory.offline is None
    assert ("t", 0) in directory
    directory.close(broker_epoch=1)


def test_names_that_are_not_utf8_are_ignored(path):
    for name in (b"\xff-0", b"t-0.\xff-delete", b"t-\xff-future"):
        os.mkdir(os.fsencode(path) + b"/" + name)
    directory = LogDirectory(path)
    directory.purge()
    assert directory.partitions() == set()
    directory.close(broker_epoch=1)
    assert len(os.listdir(os.fsencode(path))) >= 3
