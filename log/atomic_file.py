"""Replacing a small file whole: after a crash it is the old one or the new one, never a half.

Source: Kafka's `CheckpointFile.write` and `Utils.atomicMoveWithFallback`.
"""

from __future__ import annotations

from pathlib import Path

from log.files import REAL_FILES, Files


def write_atomically(path: Path, data: bytes, files: Files = REAL_FILES) -> None:
    """Writes a temporary file beside `path`, fsyncs it, renames it, fsyncs the directory. Blocks; raises OSError."""
    temporary = path.with_name(path.name + ".tmp")
    file = files.open(temporary, create=True)
    files.truncate(file, 0)
    files.pwrite(file, data, 0)
    files.fdatasync(file)
    files.rename(temporary, path)
    files.fsync_directory(path.parent)
