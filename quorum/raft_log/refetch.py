"""A replica that has lost flushed data: how far it must fetch again before it votes or leads (R15).

    __cluster_metadata-0.refetch      in the node's directory: one line, the end offset of the log when the damage was
    found

Whatever this replica ever promised to a leader or a candidate lies below that offset. Until it knows that everything
below is committed and fetched, its log may be shorter than its promises, so it neither votes nor stands. Source: CORDS
(FAST '18), protocol-aware recovery.
"""

from __future__ import annotations

from pathlib import Path

from log.disk.atomic_file import write_atomically
from log.disk.files import REAL_FILES, Files

SUFFIX = ".refetch"


class RefetchMark:
    """`upto` is None for a replica that has all that it promised. Methods block and raise OSError, ValueError for a
    damaged file.
    """

    def __init__(self, log_directory: Path, files: Files = REAL_FILES) -> None:
        self._path = log_directory.with_name(log_directory.name + SUFFIX)
        self._files = files
        self.upto = self._load()

    def _load(self) -> int | None:
        try:
            return int(self._files.read_bytes(self._path))
        except FileNotFoundError:
            return None

    def set(self, end_offset: int) -> None:
        """Durable before anything is taken away; of two damages the larger promise counts."""
        self.upto = max(end_offset, self.upto or 0)
        write_atomically(self._path, f"{self.upto}\n".encode(), self._files)

    def clear(self) -> None:
        """All is here again."""
        self.upto = None
        self._files.unlink(self._path)
