"""The refetch mark of a replica that has lost flushed data: the offset up to which it must fetch again before it votes
or leads (R15).

    __cluster_metadata-0.refetch      in the node's directory: the end offset of the log when the damage was found, a
    blank, CRC-32C of its digits as 8 hex digits, a newline; earlier versions wrote the offset and the newline

All records that this replica has acknowledged to a leader or a candidate are below that offset. Until it knows that all
records below are committed and fetched, its log may be shorter than its acknowledgements, so it neither votes nor
becomes a candidate. The offset is stored nowhere else, so a damaged file is refused. Source: CORDS (FAST '18),
protocol-aware recovery.
"""

from __future__ import annotations

import re
from pathlib import Path

import crc32c

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.wire.identity import Offset

SUFFIX = ".refetch"
_LINE = re.compile(rb"(\d{1,19})(?: ([0-9a-f]{8}))?\n")


class RefetchMarkDamaged(Exception):
    """The mark exists but cannot be read, so it is unknown when the replica may vote again."""


class RefetchMark:
    """The mark of one replica. `end_offset` is None if the replica has all records that it has acknowledged. Methods
    block and raise OSError.
    """

    def __init__(self, log_directory: Path, files: Files = REAL_FILES) -> None:
        """Reads the mark. Raises RefetchMarkDamaged."""
        self._path = log_directory.with_name(log_directory.name + SUFFIX)
        self._files = files
        self.end_offset = self._load()

    def _load(self) -> Offset | None:
        try:
            text = read_small_file(self._path, self._files)
        except FileDamaged as damage:
            raise RefetchMarkDamaged(self._refusal(str(damage))) from damage
        if text is None:
            return None
        line = _LINE.fullmatch(text)
        if line is None or (line[2] and int(line[2], 16) != crc32c.crc32c(line[1])):
            raise RefetchMarkDamaged(self._refusal(f"{self._path} is damaged"))
        return Offset(int(line[1]))

    @staticmethod
    def _refusal(what: str) -> str:
        return f"{what}: it says up to where this replica must fetch before it votes, and nothing else does"

    def set(self, end_offset: Offset) -> None:
        """Sets the mark durably, before any data is removed; after repeated damage the larger offset remains."""
        self.end_offset = max(end_offset, self.end_offset or Offset(0))
        digits = b"%d" % self.end_offset
        line = b"%s %08x\n" % (digits, crc32c.crc32c(digits))
        write_atomically(self._path, line, self._files)

    def clear(self) -> None:
        """Removes the mark, because all records have been fetched again."""
        self.end_offset = None
        self._files.unlink(self._path)
