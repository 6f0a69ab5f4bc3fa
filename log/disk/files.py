"""The few system calls on files that this package makes, in one object that tests replace.

Nothing else in `log` touches the file system (`tests/log/disk/test_file_layer.py` checks that), except that
`log/durability/syncing.py` has the kernel sync descriptors. `tests/log/faulty_files.py` injects faults. Positional
calls only: no handle has a seek pointer to get wrong. Every method raises OSError as the system does; callers turn the
first one into an offline directory.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trimaran.log.disk.open_files import OpenFiles

# At 500 MB/s, 2 ms of the disk.
WRITTEN_OUT_BYTES = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)  # os has no syncfs and no sync_file_range
_WRITE_AND_WAIT = 1 | 2 | 4  # SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE, _WAIT_AFTER
_NOT_KNOWN = (errno.ENOSYS, errno.EINVAL, errno.EPERM)  # by this system, file system or sandbox


class OpenFile:
    """An open file; closed with the last reference to it, so readers outlive deletion of the name."""

    __slots__ = ("fd", "path")

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path

    def fileno(self) -> int:
        return self.fd

    def __del__(self) -> None:
        os.close(self.fd)


class FileStatus(NamedTuple):
    """The status of the name itself; no link is followed."""

    size: int
    modified_ms: int
    is_regular: bool
    is_directory: bool = False


class Volume(NamedTuple):
    """The file system that a path lies on, in bytes; `usable` is what this user may still write."""

    total: int
    usable: int


class Files:
    """The real calls."""

    # Whether the kernel may be given a descriptor to sync, instead of a thread `fdatasync`.
    kernel_syncs = True

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        """`open_files` bounds the descriptors of whoever uses this object; the process's own limit when not given."""
        self.open_files = open_files or OpenFiles()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OpenFile:
        """A regular file. A FIFO or device in its place is refused, never waited for or written to."""
        # Without O_NONBLOCK opening a FIFO without a writer waits for ever.
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK
        fd = self._descriptor(path, flags | (os.O_CREAT if create else 0))
        file = OpenFile(fd, path)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file

    def _descriptor(self, path: Path, flags: int) -> int:
        """That the process has none left is no failure of the disk, while there are files to close."""
        while True:
            try:
                return os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                if not self.open_files.make_room():
                    raise

    def pwrite(self, file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
        """Writes all of `data`; a short write is continued (the rest usually brings the error)."""
        fd = file.fd
        written = os.pwrite(fd, data, position)
        while written < len(data):
            written += os.pwrite(fd, memoryview(data)[written:], position + written)

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        """Up to `size` bytes, fewer only at the end of the file."""
        return os.pread(file.fileno(), size, position)

    def size(self, file: OpenFile) -> int:
        return os.fstat(file.fileno()).st_size

    def fdatasync(self, file: OpenFile) -> None:
        os.fdatasync(file.fileno())

    def write_out(self, file: OpenFile, start: int, end: int) -> None:
        """Has the disk take these bytes, a piece after the other; only an fdatasync makes them durable.

        The journal of ext4 takes no commit of another file before it has the data of this one that are on their way,
        so they should be few at any time. Does nothing where the system does not know how.

        Raises:
            OSError: the disk did not take them. An fdatasync after it would not tell so again.
        """
        for position in range(start, end, WRITTEN_OUT_BYTES):
            count = min(WRITTEN_OUT_BYTES, end - position)
            place = ctypes.c_int64(position), ctypes.c_int64(count)
            if _libc.sync_file_range(file.fileno(), *place, _WRITE_AND_WAIT) != 0:
                error = ctypes.get_errno()
                if error in _NOT_KNOWN:
                    return
                raise OSError(error, os.strerror(error), str(file.path))

    def fsync_directory(self, path: Path) -> None:
        fd = self._descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_volume(self, path: Path) -> None:
        """Makes everything on the file system of `path` durable, of all writers: for thousands of files the one quick
        way.
        """
        fd = self._descriptor(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _libc.syncfs(fd) != 0:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error), str(path))
        finally:
            os.close(fd)

    def truncate(self, file: OpenFile, size: int) -> None:
        os.ftruncate(file.fileno(), size)

    def preallocate(self, file: OpenFile, size: int) -> None:
        """Makes the file `size` bytes of zeros with blocks of its own, so that later writes find their place."""
        os.posix_fallocate(file.fileno(), 0, size)

    def lock(self, file: OpenFile) -> None:
        """Excludes other processes until `unlock` or their end; raises BlockingIOError when one has the lock."""
        fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)

    def unlock(self, file: OpenFile) -> None:
        fcntl.lockf(file.fileno(), fcntl.LOCK_UN)

    def rename(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def mkdir(self, path: Path) -> None:
        path.mkdir(exist_ok=True)

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def list_directory(self, path: Path) -> Sequence[str]:
        return sorted(os.listdir(path))

    def read_bytes(self, path: Path) -> bytes:
        """The whole of a small regular file."""
        file = Files.open(self, path, write=False)
        fd = file.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0)

    def status(self, path: Path) -> FileStatus:
        found = os.lstat(path)
        return FileStatus(
            found.st_size,
            found.st_mtime_ns // 1_000_000,
            stat.S_ISREG(found.st_mode),
            stat.S_ISDIR(found.st_mode),
        )

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """As if the file had been written last then. Not durable by itself."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def is_directory(self, path: Path) -> bool:
        """Also for a link to a directory; False when there is nothing."""
        return path.is_dir()

    def resolve(self, path: Path) -> Path:
        """The one name of a directory, whatever links lead to it."""
        return path.resolve()

    def volume(self, path: Path) -> Volume:
        found = os.statvfs(path)
        return Volume(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


REAL_FILES = Files()


# Errors of one name: it is of another kind than it should be (EINVAL, ENXIO, ENODEV: a FIFO, socket or device), may not
# be touched, or is the place of a mount (EBUSY, EXDEV).
_OF_NAMES = frozenset(
    {
        errno.EACCES,
        errno.EBUSY,
        errno.EEXIST,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENODEV,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.ENXIO,
        errno.EPERM,
        errno.EXDEV,
    }
)


def is_of_name(error: OSError) -> bool:
    """Whether an error is about what lies at one name, so that it says nothing of the disk."""
    return error.errno in _OF_NAMES


def printable(text: str) -> str:
    """With the bytes of file names that are not UTF-8 written as escapes, as a log or a response takes them."""
    return text.encode(errors="backslashreplace").decode()
