"""Removal of the directory of a deleted partition, with all its contents.

Source: Kafka's `Utils.delete`, which does not follow links either. Intentional difference: a file that cannot be
removed because of its type or permissions is not a disk failure (`log/durability/health.py`).
"""

from __future__ import annotations

import logging
from pathlib import Path

from trimaran.log.disk.files import Files, is_of_name, printable
from trimaran.wire.text import events

log = logging.getLogger(__name__)


def remove_deleted(path: Path, files: Files) -> None:
    """Removes all files at `path` that can be removed, and logs the first error of the rest. A link itself is removed,
    never its target. Blocks. Raises OSError: the disk failed.
    """
    # Lists instead of recursion, because the depth is not under our control.
    errors: list[OSError] = []
    pending, directories = [path], []
    while pending:
        one = pending.pop()
        try:
            if not _unlinked(one, files):
                directories.append(one)
                pending += [one / name for name in files.list_directory(one)]
        except OSError as error:
            _pass_over(error, errors)
    for directory in reversed(directories):
        try:
            files.rmdir(directory)
        except OSError as error:
            _pass_over(error, errors)
    if errors:
        events.LOG_DIRECTORY_NOT_REMOVED.log(
            log, directory=printable(str(path)), error=printable(str(errors[0]))
        )


def _unlinked(path: Path, files: Files) -> bool:
    """Unlinks a name; returns False for a directory. A link to a directory is unlinked."""
    try:
        files.unlink(path)
    except IsADirectoryError:
        return False
    return True


def _pass_over(error: OSError, errors: list[OSError]) -> None:
    if not is_of_name(error):
        raise error
    errors.append(error)
