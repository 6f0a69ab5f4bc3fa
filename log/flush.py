"""One fsync of a log: prepared on the loop, run in a thread, finished on the loop.

The order makes the flushed offset honest (P6): batches, then the epochs that explain them, then the names of new files
(KAFKA-3968). A flush owns the handles it syncs, so it does not care what becomes of the segments meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from log.atomic_file import write_atomically
from log.files import Files, OpenFile
from log.health import DirectoryHealth


@dataclass(slots=True, eq=False)
class Flush:
    """What must be durable so that every offset below `end_offset` is.

    `end_offset` is lowered by a truncation that happens while the flush runs.
    """

    end_offset: int
    files: Files
    health: DirectoryHealth
    open_files: list[OpenFile] = field(default_factory=list)
    epochs: tuple[Path, bytes] | None = None
    epochs_version: int = 0
    directories: list[Path] = field(default_factory=list)
    names_version: int = 0
    done: bool = False

    def run(self) -> None:
        """Blocks; for a thread. A failure takes the directory offline and is not tried again. Raises OSError."""
        with self.health.guard_raw("fsync"):
            for file in self.open_files:
                self.files.fdatasync(file)
            if self.epochs is not None:
                write_atomically(*self.epochs, self.files)
            for directory in self.directories:
                self.files.fsync_directory(directory)
        self.done = True
