"""The few system calls on files that this package makes, in one object that tests replace.

`log/testing.py` has the fault-injecting stand-in. Positional calls only: no handle has a seek pointer to get wrong.
Every method raises OSError as the system does; callers turn the first one into an offline directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


class OpenFile:
    """An open file; closed when nobody refers to it any more, so readers outlive deletion of the name."""

    __slots__ = ("_fd", "path")

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self.path = path

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        os.close(self._fd)


class Files:
    """The real calls."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> OpenFile:
        flags = (os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0) | os.O_CLOEXEC
        return OpenFile(os.open(path, flags, 0o644), path)

    def pwrite(self, file: OpenFile, data: bytes | bytearray | memoryview, position: int) -> None:
        """Writes all of `data`; a short write is continued (the rest usually brings the error)."""
        fd = file.fileno()
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

    def fsync_directory(self, path: Path) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def truncate(self, file: OpenFile, size: int) -> None:
        os.ftruncate(file.fileno(), size)

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
        return path.read_bytes()


REAL_FILES = Files()
