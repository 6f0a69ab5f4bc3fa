"""Small files: how each is read, and each step of its replacement."""

from __future__ import annotations

import errno

import pytest

from tests.log.recorded_files import RecordedFiles
from trimaran.log.disk.atomic_file import write_atomically, write_unsynced
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def test_file_is_read_or_missing(path):
    assert read_small_file(path, REAL_FILES) is None
    assert read_small_file(path / "below", REAL_FILES) is None
    path.write_bytes(b"content")
    assert read_small_file(path, REAL_FILES) == b"content"
    link = path.with_name("link")
    link.symlink_to(path)
    assert read_small_file(link, REAL_FILES) == b"content"


def test_link_to_nowhere_is_damaged(path):
    path.symlink_to("nowhere")
    with pytest.raises(FileDamaged, match="file is a link to nowhere"):
        read_small_file(path, REAL_FILES)


def test_directory_is_no_file(path):
    path.mkdir()
    with pytest.raises(FileDamaged, match="file cannot be read: not a regular file"):
        read_small_file(path, REAL_FILES)


@pytest.mark.parametrize(("number", "is_damaged"), [(errno.EACCES, True), (errno.EIO, False)])
def test_only_errors_of_the_name_are_damage(path, number, is_damaged):
    class Failing(Files):
        def read_bytes(self, path):
            raise OSError(number, "refused")

    with pytest.raises(FileDamaged if is_damaged else OSError, match="refused"):
        read_small_file(path, Failing())


@pytest.mark.parametrize("before", [None, b"", b"a longer content than the new one"])
def test_replacement_is_synced_before_its_name(path, before):
    if before is not None:
        path.write_bytes(before)
        path.with_name("file.tmp").write_bytes(b"of an earlier crash, and longer than the new one")
    files = Steps(path)
    write_atomically(path, b"new", files)
    assert path.read_bytes() == b"new"
    assert not path.with_name("file.tmp").exists()
    is_new = "make" if before is None else "open"
    assert files.taken() == [
        f"{is_new} file.tmp",
        "cut file.tmp to 0",
        "write 3 bytes to file.tmp at 0",
        f"sync file.tmp, file has {before}",
        "rename file.tmp to file",
        f"sync names in {path.parent.name}",
    ]


def test_unsynced_replacement_syncs_nothing(path):
    files = Steps(path)
    write_unsynced(path, b"new", files)
    assert path.read_bytes() == b"new"
    assert files.taken() == [
        "make file.tmp",
        "cut file.tmp to 0",
        "write 3 bytes to file.tmp at 0",
        "rename file.tmp to file",
    ]


def test_directory_in_place_is_kept_aside(path):
    path.mkdir()
    (path / "inside").write_bytes(b"")
    write_atomically(path, b"new", REAL_FILES)
    assert path.read_bytes() == b"new"
    assert (path.with_name("file.damaged") / "inside").exists()


class Steps(RecordedFiles):
    """Records operations, and the content that a reader would find at each sync."""

    def __init__(self, path):
        super().__init__()
        self._path = path

    def fdatasync(self, file):
        found = self._path.read_bytes() if self._path.exists() else None
        self.lines.append(f"sync {file.path.name}, {self._path.name} has {found}")
