"""The file system calls: what each returns, refuses and passes to the system, exactly."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from types import SimpleNamespace

import pytest

from trimaran.log.disk import files as module
from trimaran.log.disk.files import (
    WRITTEN_OUT_BYTES,
    Files,
    FileStatus,
    Volume,
    is_of_name,
    printable,
)
from trimaran.log.disk.named_file import NamedFile
from trimaran.log.disk.open_files import ROOM_MADE, OpenFiles


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("exists", [False, True])
def test_file_is_created_only_on_request(files, path, exists, create):
    if exists:
        path.write_bytes(b"content")
    if not exists and not create:
        with pytest.raises(FileNotFoundError):
            files.open(path)
        return
    file = files.open(path, create=create)
    assert files.size(file) == (7 if exists else 0)
    assert os.stat(path).st_mode & 0o777 == 0o644 & ~_umask()
    files.pwrite(file, b"NEW", 2)
    assert path.read_bytes() == (b"coNEWnt" if exists else b"\0\0NEW")


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_file_opened_to_read_is_not_written(files, path):
    path.write_bytes(b"content")
    file = files.open(path, write=False)
    assert files.pread(file, 3, 2) == b"nte"
    assert files.pread(file, 30, 5) == b"nt"
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.pwrite(file, b"x", 0)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_only_regular_files_are_opened(files, path, make):
    make(path)
    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        files.open(path)
    with pytest.raises(OSError, match="not a regular file"):
        files.open(path, write=False)


def test_descriptor_is_closed_with_its_last_reference(files, path):
    file = files.open(path, create=True)
    number = file.fileno()
    assert not os.get_inheritable(number)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


class Room:
    """Answers `make_room` with the given results, in order."""

    def __init__(self, *results):
        self.results = list(results)

    def make_room(self):
        return self.results.pop(0)


@pytest.mark.parametrize(
    ("failures", "room", "is_opened"),
    [
        ([], [], True),
        ([errno.EMFILE], [True], True),
        ([errno.ENFILE, errno.EMFILE], [True, True], True),
        ([errno.EMFILE], [False], False),
        ([errno.ENFILE, errno.ENFILE], [True, False], False),
        ([errno.EIO], [], False),
    ],
)
def test_descriptor_shortage_closes_other_files(path, monkeypatch, failures, room, is_opened):
    real, left = os.open, list(failures)

    def open_(*arguments):
        if left:
            raise OSError(left.pop(0), "refused")
        return real(*arguments)

    files = Files(Room(*room))
    monkeypatch.setattr(module.os, "open", open_)
    if is_opened:
        assert files.size(files.open(path, create=True)) == 0
    else:
        with pytest.raises(OSError, match="refused") as caught:
            files.open(path, create=True)
        assert caught.value.errno == failures[-1]
    assert (left, files.open_files.results) == ([], [])


def named(fd):
    return os.readlink(f"/proc/self/fd/{fd}")


@pytest.fixture
def synced(monkeypatch):
    """Returns the list of the paths that are passed to the system's syncs."""
    found = []
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(module.os, name, lambda fd, name=name: found.append((name, named(fd))))
    libc = SimpleNamespace(syncfs=lambda fd: found.append(("syncfs", named(fd))) or 0)
    monkeypatch.setattr(module, "_libc", libc)
    return found


def test_each_sync_uses_the_given_path(files, path, synced):
    file = files.open(path, create=True)
    before = os.listdir("/proc/self/fd")
    files.fdatasync(file)
    files.fsync_directory(path.parent)
    files.sync_volume(path.parent)
    assert synced == [
        ("fdatasync", str(path)),
        ("fsync", str(path.parent)),
        ("syncfs", str(path.parent)),
    ]
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("result", [-1, 1])
def test_failed_sync_raises_and_leaks_nothing(files, tmp_path, monkeypatch, result):
    def refuse(_fd):
        raise OSError(errno.EIO, "refused")

    monkeypatch.setattr(module.os, "fsync", refuse)
    monkeypatch.setattr(module, "_libc", SimpleNamespace(syncfs=lambda _fd: result))
    monkeypatch.setattr(module.ctypes, "get_errno", lambda: errno.EIO)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="refused"):
        files.fsync_directory(tmp_path)
    with pytest.raises(OSError, match="Input/output error") as caught:
        files.sync_volume(tmp_path)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path))
    assert os.listdir("/proc/self/fd") == before


# The system's `struct flock`; locks of open file descriptions exclude those of this process.
_FLOCK = struct.Struct("hhqqi4x")


def lock_state(other):
    """Returns the kind of lock that keeps the description `other` from the whole file."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    return _FLOCK.unpack(fcntl.fcntl(other, fcntl.F_OFD_GETLK, asked))[0]


def test_lock_excludes_others_until_unlocked(files, path):
    file = files.open(path, create=True)
    with path.open("r+b") as other:
        assert lock_state(other) == fcntl.F_UNLCK
        files.lock(file)
        assert lock_state(other) == fcntl.F_WRLCK
        files.unlock(file)
        assert lock_state(other) == fcntl.F_UNLCK
        fcntl.fcntl(other, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        with pytest.raises(BlockingIOError):
            files.lock(file)


@pytest.mark.parametrize("short", [1, 2, 3, 10])
def test_short_writes_are_continued(files, path, monkeypatch, short):
    real = os.pwrite
    monkeypatch.setattr(module.os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:short], at))
    files.pwrite(files.open(path, create=True), bytearray(b"content"), 1)
    assert path.read_bytes() == b"\0content"


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [
        (0, 0, []),
        (5, 1, [(5, 1)]),
        (5, WRITTEN_OUT_BYTES, [(5, WRITTEN_OUT_BYTES)]),
        (5, WRITTEN_OUT_BYTES + 1, [(5, WRITTEN_OUT_BYTES), (WRITTEN_OUT_BYTES + 5, 1)]),
    ],
)
def test_bytes_are_written_out_in_pieces(files, path, monkeypatch, start, size, expected):
    asked = []

    def sync_file_range(_fd, position, count, flags):
        asked.append((position.value, count.value))
        assert flags == 7
        return 0

    monkeypatch.setattr(module, "_libc", SimpleNamespace(sync_file_range=sync_file_range))
    files.write_out(files.open(path, create=True), start, start + size)
    assert asked == expected


@pytest.mark.parametrize(
    ("number", "is_raised"),
    [(errno.ENOSYS, False), (errno.EINVAL, False), (errno.EPERM, False), (errno.EIO, True)],
)
def test_missing_writeout_call_is_no_failure(files, path, monkeypatch, number, is_raised):
    asked = []

    def refuse(*_arguments):
        asked.append(1)
        return -1

    monkeypatch.setattr(module, "_libc", SimpleNamespace(sync_file_range=refuse))
    monkeypatch.setattr(module.ctypes, "get_errno", lambda: number)
    file = files.open(path, create=True)
    if is_raised:
        with pytest.raises(OSError, match=r"Input/output error.*file"):
            files.write_out(file, 0, 3 * WRITTEN_OUT_BYTES)
    else:
        files.write_out(file, 0, 3 * WRITTEN_OUT_BYTES)
    assert len(asked) == 1


def test_status_is_that_of_the_link(files, path):
    path.write_bytes(b"content")
    files.set_modified(path, 1_700_000_000_123)
    assert files.status(path) == FileStatus(7, 1_700_000_000_123, True, False)
    assert os.stat(path).st_atime_ns == os.stat(path).st_mtime_ns == 1_700_000_000_123_000_000
    link = path.with_name("link")
    link.symlink_to(path.parent)
    found = files.status(link)
    assert (found.is_regular, found.is_directory) == (False, False)
    assert files.is_directory(link)
    assert files.resolve(link) == files.resolve(path.parent)
    found = files.status(path.parent)
    assert (found.is_regular, found.is_directory) == (False, True)
    assert not files.is_directory(path)
    assert not files.is_directory(path / "missing")


def test_names_are_listed_in_order(files, path):
    for name in ("b", "a", "c"):
        (path.parent / name).write_bytes(b"")
    assert files.list_directory(path.parent) == ["a", "b", "c"]
    files.unlink(path.parent / "b")
    files.unlink(path.parent / "b")
    files.mkdir(path.parent / "d")
    files.mkdir(path.parent / "d")
    files.rename(path.parent / "a", path.parent / "c")
    assert files.list_directory(path.parent) == ["c", "d"]
    files.rmdir(path.parent / "d")
    assert files.list_directory(path.parent) == ["c"]


def test_file_is_extended_and_cut(files, path):
    file = files.open(path, create=True)
    files.preallocate(file, 100)
    assert files.size(file) == 100
    files.truncate(file, 3)
    assert path.read_bytes() == bytes(3)


def test_volume_has_the_sizes_of_its_file_system(files, tmp_path):
    found = os.statvfs(tmp_path)
    volume = files.volume(tmp_path)
    assert volume.total == found.f_blocks * found.f_frsize
    assert isinstance(volume, Volume)
    assert 0 < volume.usable <= volume.total
    assert volume.usable % found.f_frsize == 0


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *(
            (getattr(errno, name), True)
            for name in ("EACCES", "EBUSY", "EEXIST", "EINVAL", "EISDIR")
        ),
        *((getattr(errno, name), True) for name in ("ELOOP", "ENAMETOOLONG", "ENODEV", "ENOENT")),
        *(
            (getattr(errno, name), True)
            for name in ("ENOTDIR", "ENOTEMPTY", "ENXIO", "EPERM", "EXDEV")
        ),
        *((getattr(errno, name), False) for name in ("EIO", "ENOSPC", "EROFS", "EDQUOT", "EMFILE")),
    ],
)
def test_error_belongs_to_name_or_disk(number, expected):
    assert is_of_name(OSError(number, "refused")) is expected


def test_undecodable_text_is_printable():
    assert printable("t-é") == "t-é"
    assert printable(b"t-\xff".decode(errors="surrogateescape")) == r"t-\udcff"


def test_number_of_descriptors_is_bounded(files):
    assert isinstance(files.open_files, OpenFiles)
    assert Files().open_files is not files.open_files
    bound = OpenFiles(3)
    assert Files(bound).open_files is bound


# -- files by name


def test_named_file_is_reopened_after_closing(path):
    named = NamedFile(path, Files(OpenFiles(2)))
    assert (named.is_open, named.used, named.listed) == (False, False, False)
    with pytest.raises(FileNotFoundError):
        named.get()
    first = named.get(create=True)
    assert (named.is_open, named.used, named.listed) == (True, True, True)
    assert named.get() is first
    named.used = False
    named.close()
    assert not named.is_open
    assert named.get() is not first
    assert named.used


def test_least_recently_used_file_is_closed(tmp_path):
    files = Files(OpenFiles(2))
    first, second, third = (NamedFile(tmp_path / name, files) for name in "abc")
    for named in (first, second):
        named.get(create=True)
        named.used = False
    first.get()
    third.get(create=True)
    assert [named.is_open for named in (first, second, third)] == [True, False, True]
    assert [named.listed for named in (first, second, third)] == [True, False, True]


def test_closed_file_leaves_the_clock_although_used(tmp_path):
    files = Files(OpenFiles(2))
    first, second, third = (NamedFile(tmp_path / name, files) for name in "abc")
    for named in (first, second):
        named.get(create=True)
    first.close()
    third.get(create=True)
    assert [named.listed for named in (first, second, third)] == [False, True, True]
    assert [named.is_open for named in (second, third)] == [True, True]
    assert (first.used, second.used) == (True, True)


@pytest.mark.parametrize(
    ("count", "closed"), [(0, 0), (1, 1), (ROOM_MADE, ROOM_MADE), (ROOM_MADE + 1, ROOM_MADE)]
)
def test_room_is_made_by_closing_some_files(tmp_path, count, closed):
    """The first files are closed, whether they are in use or not; closed files do not count."""
    bound = OpenFiles(1000)
    files = Files(bound)
    named = [NamedFile(tmp_path / str(number), files) for number in range(count + 1)]
    for each_file in named:
        each_file.get(create=True)
    named[0].close()
    assert bound.make_room() is (closed > 0)
    still = [each_file.is_open for each_file in named]
    assert still == [False] * (1 + closed) + [True] * (count - closed)
    assert [each_file.listed for each_file in named] == still
