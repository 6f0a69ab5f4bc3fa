"""Replacing a small file whole: after a crash it is the old one or the new one, never a half.

Source: Kafka's `CheckpointFile.write` and `Utils.atomicMoveWithFallback`.
"""

from __future__ import annotations

from pathlib import Path

from log.disk.files import REAL_FILES, Files, OpenFile


def write_atomically(path: Path, data: bytes, files: Files = REAL_FILES) -> None:
    """Writes a temporary file beside `path`, fsyncs it, renames it, fsyncs the directory. Blocks; raises OSError."""
    file, temporary = _write_beside(path, data, files)
    files.fdatasync(file)
    files.rename(temporary, path)
    files.fsync_directory(path.parent)


def write_unsynced(path: Path, data: bytes, files: Files) -> None:
    """The same for whoever syncs the whole volume before anybody relies on it. Raises OSError."""
    _, temporary = _write_beside(path, data, files)
    files.rename(temporary, path)


def _write_beside(path: Path, data: bytes, files: Files) -> tuple[OpenFile, Path]:
    temporary = path.with_name(path.name + ".tmp")
    file = files.open(temporary, create=True)
    files.truncate(file, 0)
    files.pwrite(file, data, 0)
    return file, temporary
