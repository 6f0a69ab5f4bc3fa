"""Reading a small file: that it is missing is one thing, that it cannot be read another.

The reader decides about the second: content that the log has too is rebuilt and reported, other content is refused by
name (mD3).
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.files import Files, is_of_name, printable


class FileDamaged(Exception):
    """A file is there and is not what it should be; the message names it and says what is wrong."""


def read_small_file(path: Path, files: Files) -> bytes | None:
    """All of the file; None where there is none.

    Raises:
        FileDamaged: something lies there that cannot be read: no right to, a directory, a link to nowhere.
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
