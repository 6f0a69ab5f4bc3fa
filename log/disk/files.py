"""The file system calls of this package, in one object that tests can replace.

Nothing else in `log` accesses the file system (`tests/log/disk/test_file_layer.py` checks that), except
`log/durability/syncing.py`, with which the kernel syncs descriptors. `tests/log/faulty_files.py` injects faults. All
calls are positional, so no handle depends on a seek pointer. Every method raises OSError as the system does; callers
turn the first one into an offline directory.
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

# The bytes of a write-out: 2 ms of a disk at 500 MB/s.
WRITTEN_OUT_BYTES = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)  # os has no syncfs and no sync_file_range
_WRITE_AND_WAIT = 1 | 2 | 4  # SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE, _WAIT_AFTER
_NOT_KNOWN = (errno.ENOSYS, errno.EINVAL, errno.EPERM)  # the system or sandbox lacks the call


class OpenFile:
    """An open file; it is closed with the last reference, so readers can continue after the name is deleted."""

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
    """The sizes of the file system of a path, in bytes; `usable` is the space that this user may still use."""

    total: int
    usable: int


class Files:
    """The real system calls."""

    # Whether the kernel may sync a descriptor, instead of a thread that calls `fdatasync`.
    kernel_syncs = True

    def __init__(self, open_files: OpenFiles | None = None) -> None:
        """Takes the bound of the descriptors opened through this object as `open_files`; by default the process's limit
        applies.
        """
        self.open_files = open_files or OpenFiles()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OpenFile:
        """Opens a regular file. A FIFO or device in its place is refused, never waited for or written to."""
        # Without O_NONBLOCK, opening a FIFO without a writer waits forever.
        flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NONBLOCK
        fd = self._descriptor(path, flags | (os.O_CREAT if create else 0))
        file = OpenFile(fd, path)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file

    def _descriptor(self, path: Path, flags: int) -> int:
        """Opens a descriptor. If the process has none left, it closes other files and retries: that is not a disk
        failure.
        """
        while True:
            try:
                return os.open(path, flags, 0o644)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                if not self.open_files.make_room():
                    raise

    def pwrite(self, file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
        """Writes all of `data`; a short write is continued, which usually raises the error."""
        fd = file.fd
        written = os.pwrite(fd, data, position)
        while written < len(data):
            written += os.pwrite(fd, memoryview(data)[written:], position + written)

    def pread(self, file: OpenFile, size: int, position: int) -> bytes:
        """Returns up to `size` bytes, fewer only at the end of the file."""
        return os.pread(file.fileno(), size, position)

    def size(self, file: OpenFile) -> int:
        return os.fstat(file.fileno()).st_size

    def fdatasync(self, file: OpenFile) -> None:
        os.fdatasync(file.fileno())

    def write_out(self, file: OpenFile, start: int, end: int) -> None:
        """Starts writing these bytes to the disk, one piece after another; only an fdatasync makes them durable.

        The journal of ext4 delays commits of other files until the data of this file in flight are written, so these
        should be few at any time. Does nothing if the system does not support it.

        Raises:
            OSError: the disk failed. A later fdatasync would not report the error again.
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
        """Makes all data on the file system of `path` durable, from all writers: this is the only fast way for
        thousands of files.
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
        """Extends the file to `size` bytes of zeros with allocated blocks, so that later writes need no allocation."""
        os.posix_fallocate(file.fileno(), 0, size)

    def lock(self, file: OpenFile) -> None:
        """Excludes other processes until `unlock` or the end of this one; raises BlockingIOError if another process has
        the lock.
        """
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
        """Returns the whole content of a small regular file."""
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
        """Sets the time of the last write. This is not durable by itself."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def is_directory(self, path: Path) -> bool:
        """Whether `path` is a directory, or a link to one; False if it does not exist."""
        return path.is_dir()

    def resolve(self, path: Path) -> Path:
        """Returns the canonical path of a directory, with all links resolved."""
        return path.resolve()

    def volume(self, path: Path) -> Volume:
        found = os.statvfs(path)
        return Volume(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


REAL_FILES = Files()


# Errors of a single path: it has the wrong type (EINVAL, ENXIO, ENODEV: a FIFO, socket or device), access is denied, or
# it is a mount point (EBUSY, EXDEV).
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
    """Whether an error concerns the object at a single path, and not the disk."""
    return error.errno in _OF_NAMES


def printable(text: str) -> str:
    """Returns the text with non-UTF-8 bytes of file names escaped, for a log or a response."""
    return text.encode(errors="backslashreplace").decode()
