"""Damage in logs: data loss, and the search for the next undamaged batch, which shows that a log did not end in a torn
write.
"""

from __future__ import annotations

import logging
import os
import pwd

from trimaran.log.batches.batch import HEADER_BYTES, MAGIC, MAGIC_POSITION, has_valid_crc, header_at
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.inspection.reader import BATCH_BYTES_MAX
from trimaran.log.segments.scan import is_plausible
from trimaran.spark.origins.origin import DataUnreadable

log = logging.getLogger(__name__)

# The search for an undamaged batch ends this many bytes after the damage: many times the default maximum of a batch (1
# MiB).
LOOK_BYTES_MAX = 16 << 20
OFFSETS_AHEAD_MAX = 1 << 31  # the largest segment that its index can express
HOW_TO_GO_ON = "failOnDataLoss=false gives what there is"


def lose(message: str, *, fail: bool) -> None:
    """Reports data that cannot be read: raises DataUnreadable if `fail`, otherwise logs a warning."""
    if fail:
        raise DataUnreadable(f"{message}; {HOW_TO_GO_ON}")
    log.warning("left out: %s", message)


def unreadable(error: OSError, path: str) -> str:
    """Returns a sentence for an error of the operating system, or of a file system in its place, at the path."""
    where, why = error.filename or path, error.strerror or str(error)
    if not isinstance(error, PermissionError):
        return f"{where} cannot be read: {why}"
    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = "without a name"
    return f"{where} cannot be read: {why} for the user {user} (uid {uid})"


def next_sound(
    files: Files, file: OpenFile, position: int, end: int, offset_min: int
) -> int | None:
    """Returns the position of the next complete batch with a correct CRC and an offset of at least `offset_min`; None
    if none is near.

    Every position is a candidate, since damage may have any length. Batches that a truncation left behind have lower
    offsets.
    """
    data = files.pread(file, min(LOOK_BYTES_MAX, end - position), position)
    at = data.find(MAGIC, MAGIC_POSITION + 1)
    while at >= 0:
        start = at - MAGIC_POSITION
        if _begins_batch(data, start, offset_min) and _is_sound(files, file, position + start, end):
            return position + start
        at = data.find(MAGIC, at + 1)
    return None


def _begins_batch(data: bytes, start: int, offset_min: int) -> bool:
    offset = int.from_bytes(data[start : start + 8], "big")
    return (
        offset_min <= offset < offset_min + OFFSETS_AHEAD_MAX and len(data) >= start + HEADER_BYTES
    )


def _is_sound(files: Files, file: OpenFile, position: int, end: int) -> bool:
    header = header_at(files.pread(file, HEADER_BYTES, position), 0)
    if (
        header is None
        or not is_plausible(header)
        or header.size > min(BATCH_BYTES_MAX, end - position)
    ):
        return False
    whole = header_at(files.pread(file, header.size, position), 0)
    return whole is not None and len(whole.buffer) == whole.size and has_valid_crc(whole)
