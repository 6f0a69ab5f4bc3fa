"""Atomic replacement of a small file: after a crash it is the old one or the new one, never a mixture. A temporary file
that a crash leaves is unused, and is overwritten.

Source: Kafka's `CheckpointFile.write` and `Utils.atomicMoveWithFallback`.
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import REAL_FILES, Files, OpenFile

DAMAGED_SUFFIX = ".damaged"


def write_atomically(path: Path, data: bytes, files: Files = REAL_FILES) -> None:
    """Writes a temporary file beside `path`, fsyncs it, renames it, fsyncs the directory. Blocks; raises OSError."""
    file, temporary = _write_temporary(path, data, files)
    files.fdatasync(file)
    _replace(temporary, path, files)
    files.fsync_directory(path.parent)


def write_unsynced(path: Path, data: bytes, files: Files) -> None:
    """Writes without syncing, for callers that sync the whole volume before the file is relied on. Raises OSError."""
    _, temporary = _write_temporary(path, data, files)
    _replace(temporary, path, files)


def _replace(temporary: Path, path: Path, files: Files) -> None:
    """Replaces the file; a directory in its place is kept under another name."""
    try:
        files.rename(temporary, path)
    except IsADirectoryError:
        files.rename(path, path.with_name(path.name + DAMAGED_SUFFIX))
        files.rename(temporary, path)


def _write_temporary(path: Path, data: bytes, files: Files) -> tuple[OpenFile, Path]:
    temporary = path.with_name(path.name + ".tmp")
    file = files.open(temporary, create=True)
    files.truncate(file, 0)
    files.pwrite(file, data, 0)
    return file, temporary
