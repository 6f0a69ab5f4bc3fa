"""One fsync of a log: prepared on the loop, run in a thread or by the kernel itself, finished on the loop.

The order makes the flushed offset honest (P6): batches, then the epochs that explain them, then the names of new files
(KAFKA-3968). A flush owns the handles it syncs, so it does not care what becomes of the segments meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import WRITTEN_OUT_BYTES, Files, OpenFile
from trimaran.log.disk.health import DirectoryHealth


class Names:
    """The names of one log's files, which a flush uses in a thread and a deletion of the partition takes away.

    Once `gone` they are nobody's, or already those of a new partition of the same name: neither may be written to, and
    that they are not there is no failure of the disk.
    """

    __slots__ = ("gone", "lock")

    def __init__(self) -> None:
        self.gone = False
        self.lock = threading.Lock()  # held for one small file and two directory fsyncs at the most

    @contextmanager
    def taken_away(self) -> Iterator[None]:
        """For the renaming of the directory; waits for a flush that is at its names."""
        with self.lock:
            self.gone = True
            yield


@dataclass(slots=True, eq=False)
class Flush:
    """What must be durable so that every offset below `end_offset` is.

    `end_offset` is lowered by a truncation that happens while the flush runs.
    """

    end_offset: int
    files: Files
    health: DirectoryHealth
    names: Names
    open_files: list[OpenFile] = field(default_factory=list)
    # File, start and end of what was appended since the last flush.
    written: list[tuple[OpenFile, int, int]] = field(default_factory=list)
    epochs: tuple[Path, bytes] | None = None
    epochs_version: int = 0
    directories: list[Path] = field(default_factory=list)
    names_version: int = 0
    done: bool = False

    def run(self) -> None:
        """Blocks; for a thread. A failure takes the directory offline and is not tried again. Raises OSError."""
        with self.health.guard_raw("fsync"):
            for file, start, end in self.written:
                if end - start > WRITTEN_OUT_BYTES:
                    self.files.write_out(file, start, end)
            for file in self.open_files:
                self.files.fdatasync(file)
            with self.names.lock:
                if not self.names.gone:
                    self._write_names()
        self.done = True

    def descriptors(self) -> list[int] | None:
        """Of the files, where an fdatasync of each is all there is to do, and the kernel may do it by itself; else
        None.
        """
        if not self.files.kernel_syncs or self.health.offline or self.epochs or self.directories:
            return None
        if any(end - start > WRITTEN_OUT_BYTES for _, start, end in self.written):
            return None
        return [file.fileno() for file in self.open_files]

    def synced(self, error: OSError | None) -> None:
        """The kernel has synced all `descriptors`, or failed to: as `run`, which is left out then. Raises OSError."""
        with self.health.guard_raw("fsync"):
            if error is not None:
                raise error
        self.done = True

    def _write_names(self) -> None:
        if self.epochs is not None:
            write_atomically(*self.epochs, self.files)
        for directory in self.directories:
            self.files.fsync_directory(directory)
