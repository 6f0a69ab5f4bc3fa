"""The result of a read: a piece of an open file that is not read yet, because `sendfile` will send it."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.log.disk.files import Files, OpenFile
from trimaran.wire.identity import Offset, Position


@dataclass(slots=True)  # not frozen, because that would double the time of a read
class LogSlice:
    """Whole batches in `size` bytes at `position` of `file`. A `trimaran.wire.buffers.outgoing.Splice`.

    It is readable while it is referenced, even after its segment is deleted. After a truncation it yields the new bytes
    at that place, or fewer: the reader's session ends with the truncated leader epoch.
    """

    file: OpenFile
    position: Position
    size: int
    first_offset: Offset  # the requested offset; the first batch may begin below it
    end_offset: Offset  # above all offsets in the slice
    files: Files

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        """Returns a copy of the bytes; raises OSError."""
        return self.files.pread(self.file, self.size, self.position)
