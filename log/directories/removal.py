"""Removing the directory of a deleted partition, whatever else lies in it.

Source: Kafka's `Utils.delete`, which follows no link either. Stricter than Kafka in one thing: what cannot be removed
for what it is, or for the rights that it has, is no failure of the disk (`log/durability/health.py`).
"""

from __future__ import annotations

import logging
from pathlib import Path

from trimaran.log.disk.files import Files, is_of_name, printable
from trimaran.wire.text import events

log = logging.getLogger(__name__)


def remove_deleted(path: Path, files: Files) -> None:
    """Removes what lies at `path`, all of it that can be removed, and logs the first error of what stays. A link itself
    is removed, never its target. Blocks. Raises OSError: the disk failed.
    """
    # Lists instead of recursion: the depth is up to whoever put something there.
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
    """Returns False for a directory. A link to one is unlinked."""
    try:
        files.unlink(path)
    except IsADirectoryError:
        return False
    return True


def _pass_over(error: OSError, errors: list[OSError]) -> None:
    if not is_of_name(error):
        raise error
    errors.append(error)
