"""The lock `.lock`: only one process uses a log directory, and only one object in the process.

Source: Kafka's `FileLock` in `LogManager.lockLogDirs`; it is the same file and the same kind of lock, so that Trimaran
and Kafka exclude each other.
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import Files

FILE_NAME = ".lock"

_locked_here: set[Path] = set()  # POSIX locks do not exclude the process that holds them


class DirectoryLocked(Exception):
    """Another process (or this one) uses the directory."""


class DirectoryLock:
    """The lock of a directory, held from construction to `release`."""

    def __init__(self, directory: Path, files: Files) -> None:
        """Takes the lock. Raises DirectoryLocked; OSError."""
        self._files = files
        self._name = files.resolve(directory)
        if self._name in _locked_here:
            raise DirectoryLocked(f"{directory} is already open in this process")
        self._file = files.open(directory / FILE_NAME, create=True)
        try:
            files.lock(self._file)
        except BlockingIOError:
            raise DirectoryLocked(f"{directory} is in use by another process") from None
        _locked_here.add(self._name)

    def release(self) -> None:
        _locked_here.discard(self._name)
        self._files.unlock(self._file)
