"""The lock of a directory: one object in the process, and one process."""

from __future__ import annotations

import pytest

from trimaran.log.directories.directory_lock import FILE_NAME, DirectoryLock, DirectoryLocked
from trimaran.log.disk.files import REAL_FILES, Files


class Taken(Files):
    """A file layer in which another process has the lock while `is_taken`."""

    is_taken = True

    def lock(self, file):
        if self.is_taken:
            raise BlockingIOError
        super().lock(file)


def test_one_object_of_a_process_has_the_lock(tmp_path):
    link = tmp_path / "link"
    directory = tmp_path / "directory"
    directory.mkdir()
    link.symlink_to(directory)
    first = DirectoryLock(directory, REAL_FILES)
    assert (directory / FILE_NAME).exists()
    for path in (directory, link):
        with pytest.raises(DirectoryLocked, match="is already open in this process"):
            DirectoryLock(path, REAL_FILES)
    other = DirectoryLock(tmp_path, REAL_FILES)
    first.release()
    second = DirectoryLock(link, REAL_FILES)
    with pytest.raises(DirectoryLocked):
        DirectoryLock(directory, REAL_FILES)
    for lock in (second, other):
        lock.release()


def test_lock_of_another_process_is_no_own_lock(tmp_path):
    files = Taken()
    with pytest.raises(DirectoryLocked, match="is in use by another process"):
        DirectoryLock(tmp_path, files)
    files.is_taken = False
    DirectoryLock(tmp_path, files).release()
    DirectoryLock(tmp_path, REAL_FILES).release()


def test_lock_is_given_back_to_the_system(tmp_path):
    class Unlocked(Files):
        def unlock(self, file):
            unlocked.append(file.path.name)
            super().unlock(file)

    unlocked = []
    DirectoryLock(tmp_path, Unlocked()).release()
    assert unlocked == [FILE_NAME]
