"""A read of a log that has not been read yet: a piece of an open file, to be sent with `sendfile`."""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.log.disk.files import Files, OpenFile
from trimaran.wire.identity import Offset


@dataclass(slots=True)  # to make a frozen one takes as long as to find its place
class LogSlice:
    """Whole batches: `size` bytes at `position` of `file`. A `trimaran.wire.buffers.outgoing.Splice`.

    Readable as long as it lives, also after its segment is deleted. After a truncation the bytes are those that stand
    there then, or missing: the reader's session ends with the leader epoch that was truncated.
    """

    file: OpenFile
    position: int
    size: int
    first_offset: Offset  # the offset asked for; the first batch may begin below it
    end_offset: Offset  # above all offsets in it
    files: Files

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        """The bytes, copied; raises OSError."""
        return self.files.pread(self.file, self.size, self.position)
