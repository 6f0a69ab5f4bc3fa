"""The recovery point of the metadata log, saved every second: damage below it is not a torn end, and the data must be
fetched again (R15).

    __cluster_metadata-0.flushed      in the node's directory: 20 digits, a blank, CRC-32C of them as 8 hex digits, a
    newline

Kafka's `recovery-point-offset-checkpoint` is not used, because it has a line for each partition of the directory and is
replaced completely, with two fsyncs and a rename. This file fits in a sector and is overwritten in place with one
fdatasync that does not change its size. It is used only after a crash. A damaged file is treated as missing and logged;
a directory or special file at this path is renamed.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Lock

import crc32c

from trimaran.log.disk.atomic_file import DAMAGED_SUFFIX
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.quorum import events
from trimaran.wire.identity import Offset

SUFFIX = ".flushed"

log = logging.getLogger(__name__)


class RecoveryPoint:
    """The saved recovery point. `offset` is the value in the file, never above the flushed end. Methods block and raise
    OSError.
    """

    def __init__(self, log_directory: Path, files: Files = REAL_FILES) -> None:
        self._path = log_directory.with_name(log_directory.name + SUFFIX)
        self._files = files
        self._writing = Lock()
        self._has_file = False
        self.offset = self._load()
        self._reached = self.offset

    def _load(self) -> Offset:
        try:
            text = read_small_file(self._path, self._files)
        except FileDamaged:
            events.METADATA_LOG_RECOVERY_POINT_DAMAGED.log(log, file=self._path)
            aside = self._path.with_name(self._path.name + DAMAGED_SUFFIX)
            self._files.rename(self._path, aside)
            return Offset(0)
        if text is None:
            return Offset(0)
        self._has_file = True
        offset = text[:20]
        if text != _format(offset):
            events.METADATA_LOG_RECOVERY_POINT_DAMAGED.log(log, file=self._path)
            return Offset(0)
        return Offset(int(offset))

    def reach(self, flushed_offset: Offset) -> None:
        """Sets the value for the next `save`; called on the loop, so that it cannot overlap a truncation."""
        self._reached = flushed_offset

    def save(self) -> None:
        """Writes the reached point if the file has a lower one. Called in a thread."""
        with self._writing:
            if self._reached > self.offset:
                self._write(self._reached)

    def lower(self, offset: Offset) -> None:
        """Lowers the point durably, before the log is truncated to `offset`."""
        with self._writing:
            self._reached = min(self._reached, offset)
            if self.offset > offset:
                self._write(offset)

    def _write(self, offset: Offset) -> None:
        file = self._files.open(self._path, create=True)
        self._files.pwrite(file, _format(b"%020d" % offset), 0)
        self._files.fdatasync(file)
        if not self._has_file:
            self._files.fsync_directory(self._path.parent)
            self._has_file = True
        self.offset = offset


def _format(digits: bytes) -> bytes:
    return b"%s %08x\n" % (digits, crc32c.crc32c(digits))
