"""The file `damaged` in a partition's directory: the log was found damaged, while it was open or after a crash, and is
refused until an operator removes the file.

Kafka ignores the file. It is needed after a clean shutdown, when a start checks only the log's end.
"""

from __future__ import annotations

from pathlib import Path

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file

FILE_NAME = "damaged"
# The maximum number of characters of a reason that are written and read.
REASON_CHARS_MAX = 1000


def note_damage(directory: Path, reason: str, files: Files) -> None:
    """Writes the note durably. Blocks briefly. Raises OSError."""
    write_atomically(directory / FILE_NAME, reason[:REASON_CHARS_MAX].encode(), files)


def noted_damage(directory: Path, files: Files) -> str | None:
    """Returns the reason in the note; None if there is no note. Raises OSError."""
    path = directory / FILE_NAME
    try:
        text = read_small_file(path, files)
    except FileDamaged as damage:
        return f"it was found damaged, and why cannot be read any more: {damage}"
    if text is None:
        return None
    reason = text[:REASON_CHARS_MAX].decode(errors="replace").strip("\0")
    return reason or f"it was found damaged, and {path} does not say why any more"
