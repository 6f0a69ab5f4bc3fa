"""Reading of small files: a missing file is distinguished from one that cannot be read.

The caller handles the second case: content that the log also has is rebuilt and reported, other content is refused by
name (mD3).
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import Files, is_of_name, printable


class FileDamaged(Exception):
    """A file exists but is invalid; the message names it and gives the fault."""


def read_small_file(path: Path, files: Files) -> bytes | None:
    """Returns the content of the file; None if it does not exist.

    Raises:
        FileDamaged: the file cannot be read: permission denied, a directory, a dangling link.
        OSError: the disk failed.
    """
    try:
        return files.read_bytes(path)
    except FileNotFoundError:
        if not _is_link_to_nowhere(path, files):
            return None
        raise FileDamaged(printable(f"{path} is a link to nowhere")) from None
    except OSError as error:
        if not is_of_name(error):
            raise
        raise FileDamaged(printable(f"{path} cannot be read: {error.strerror or error}")) from error


def _is_link_to_nowhere(path: Path, files: Files) -> bool:
    try:
        return not files.status(path).is_regular
    except (FileNotFoundError, NotADirectoryError):
        return False
