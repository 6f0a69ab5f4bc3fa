"""Checks whether a directory could be written, without writing to it."""

from __future__ import annotations

import errno
import os
from itertools import chain
from pathlib import Path


def ensure_can_be_made(path: Path) -> None:
    """Checks file permissions: the directory can be created, or written if it exists.

    Raises:
        OSError: the error that creating or writing the directory would raise.
    """
    there = next(
        parent for parent in chain([path], path.absolute().parents) if os.path.lexists(parent)
    )
    if not there.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not os.access(there, os.W_OK | os.X_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
