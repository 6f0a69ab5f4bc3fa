"""The files that must be synced for a log to be durable, and the end of its durable records.

`Flushing` tracks the flushes of one log. It prepares a `Flush` on the loop; a thread or the kernel runs it
(`log/durability/syncing.py`); `Flushing` finishes it on the loop.

The order of syncs makes the flushed offset reliable (P6): batches, then the epochs that describe them, then the names
of new files (KAFKA-3968). A flush owns the handles that it syncs, so changes of the segments in the meantime do not
affect it.

Source: Kafka's `LocalLog.flush` and recovery points.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EIO
from pathlib import Path

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.checkpoints import LEADER_EPOCHS
from trimaran.log.disk.files import WRITTEN_OUT_BYTES, Files, OpenFile
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.disk.partition_metadata import FILE_NAME as PARTITION_METADATA
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.segments.segment import Segment
from trimaran.wire.identity import Offset


class Names:
    """The names of one log's files: a flush uses them in a thread, and a deletion of the partition makes them
    unavailable.

    Once `gone`, the names are free or already belong to a new partition: they must not be written, and
    missing files are not a disk failure.
    """

    __slots__ = ("gone", "lock")

    def __init__(self) -> None:
        self.gone = False
        self.lock = threading.Lock()  # held for at most one small file and two directory fsyncs

    @contextmanager
    def taken_away(self) -> Iterator[None]:
        """Protects the renaming of the directory; waits for a flush that uses the names."""
        with self.lock:
            self.gone = True
            yield


@dataclass(slots=True, eq=False)
class Flush:
    """The files that must be synced to make every offset below `end_offset` durable.

    `end_offset` is lowered by a truncation that happens while the flush runs.
    """

    end_offset: Offset
    files: Files
    health: DirectoryHealth
    names: Names
    open_files: list[OpenFile] = field(default_factory=list)
    # Files with the start and end of the bytes appended since the last flush.
    written: list[tuple[OpenFile, int, int]] = field(default_factory=list)
    epochs: tuple[Path, bytes] | None = None
    epochs_version: int = 0
    directories: list[Path] = field(default_factory=list)
    names_version: int = 0
    done: bool = False

    def run(self) -> None:
        """Syncs all files; blocks, so it runs in a thread. A failure takes the directory offline; it is never retried.
        Raises OSError.
        """
        with self.health.guard_raw("fsync failed"):
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
        """Returns the descriptors of the files if an fdatasync of each suffices, which the kernel can run by itself;
        otherwise None.
        """
        if not self.files.kernel_syncs or self.health.offline or self.epochs or self.directories:
            return None
        for _, start, end in self.written:
            if end - start > WRITTEN_OUT_BYTES:
                return None
        return [file.fileno() for file in self.open_files]

    def synced(self, error: OSError | None) -> None:
        """Completes the flush, instead of `run`, when the kernel has synced all `descriptors` or failed. Raises
        OSError.
        """
        if error is not None or self.health.offline is not None:
            with self.health.guard_raw("fsync failed"):
                if error is not None:
                    raise error
        self.done = True

    def _write_names(self) -> None:
        if self.epochs is not None:
            write_atomically(*self.epochs, self.files)
        for directory in self.directories:
            self.files.fsync_directory(directory)


class Flushing:
    """The flush state of one log. `flushed_offset` never exceeds the end of a finished flush; a truncation lowers it
    (`lower`).
    """

    def __init__(
        self, directory: Path, epochs: LeaderEpochs, files: Files, health: DirectoryHealth
    ) -> None:
        self.flushed_offset = Offset(0)
        self.names = Names()
        self.touched = False  # whether the log was written since it was opened
        self._directory = directory
        self._epochs = epochs
        self._files = files
        self._health = health
        self._running: list[Flush] = []
        # The part of a segment that the last flush covers: later bytes are in the page cache.
        self._covered_segment = self._covered_bytes = 0
        # Counts changes of names in the directory. The first flush syncs all existing names and the directory's own
        # name: the process that created or recovered them may have been killed before its flush.
        self._names_version = 1
        self._names_saved = 0
        self._epochs_saved = -1 if epochs.version else 0
        self._directory_is_durable = False

    def names_changed(self) -> None:
        """Notes that a file was created, renamed or removed; the next flush makes that durable."""
        self._names_version += 1
        self.touched = True

    def needs_only_a_sync(self, active: Segment) -> bool:
        """Whether a flush now is only an fdatasync of the active segment, which the kernel can run by itself."""
        return (
            self._files.kernel_syncs
            and self._covered_segment == active.base_offset
            and active.size - self._covered_bytes <= WRITTEN_OUT_BYTES
            and self._names_version == self._names_saved
            and self._epochs.version == self._epochs_saved
            and self._directory_is_durable
        )

    def prepare(self, end_offset: Offset, segments: Iterable[Segment], active: Segment) -> Flush:
        """Returns the flush that makes all offsets below `end_offset` durable; `segments` contain the unflushed
        records. Raises OSError.
        """
        flush = Flush(end_offset, self._files, self._health, self.names)
        if self._health.offline is not None:
            raise OSError(EIO, self._health.offline)
        try:
            self._open_files(flush, segments, active)
        except OSError as error:
            self._health.fail(f"opening files of {self._directory}: {error}")
            raise
        self._covered_segment, self._covered_bytes = active.base_offset, active.size
        flush.epochs = self.unsaved_epochs()
        flush.epochs_version = self._epochs.version
        flush.names_version = self._names_version
        if self._names_version != self._names_saved:
            flush.directories.append(self._directory)
        if not self._directory_is_durable:
            flush.directories.append(self._directory.parent)
        self._running.append(flush)
        return flush

    def _open_files(self, flush: Flush, segments: Iterable[Segment], active: Segment) -> None:
        for segment in segments:
            if segment.exists:
                file = segment.file
                flush.open_files.append(file)
                is_covered = segment.base_offset == self._covered_segment
                start = self._covered_bytes if is_covered else 0
                flush.written.append((file, start, segment.size))
                if segment is not active:
                    flush.open_files += segment.index_files()
                elif segment.transaction_index.changed:
                    flush.open_files.append(segment.transaction_index.file())
        if not self._directory_is_durable:
            flush.open_files += self._identity()

    def _identity(self) -> list[OpenFile]:
        """Opens the file of the topic id, without which the replica would seem to belong to another topic."""
        try:
            return [self._files.open(self._directory / PARTITION_METADATA, write=False)]
        except FileNotFoundError:
            return []  # the metadata log

    def unsaved_epochs(self) -> tuple[Path, bytes] | None:
        """Returns path and content of the file of leader epochs if it must be written."""
        if self._epochs.version == self._epochs_saved:
            return None
        return self._directory / LEADER_EPOCHS, self._epochs.format()

    def finish(self, flush: Flush) -> int:
        """Records the result of a flush, and returns the flushed offset. A failed flush changes nothing."""
        if flush in self._running:
            self._running.remove(flush)
        if not flush.done:
            return self.flushed_offset
        self._epochs_saved = max(self._epochs_saved, flush.epochs_version)
        self._names_saved = max(self._names_saved, flush.names_version)
        if flush.directories and self._directory.parent in flush.directories:
            self._directory_is_durable = True
        self.flushed_offset = max(self.flushed_offset, flush.end_offset)
        return self.flushed_offset

    def emptied(self, offset: Offset) -> None:
        """Notes that the log is empty, starts at `offset`, and has synced names. The name of its directory may not
        be durable: a power failure before the next flush then removes the directory, and with it the log's start.
        """
        if self._directory_is_durable:
            self.flushed_offset = offset

    def lower(self, offset: Offset) -> None:
        """Notes a truncation to `offset`, also for flushes in progress."""
        self.touched = True
        self.flushed_offset = min(self.flushed_offset, offset)
        for flush in self._running:
            flush.end_offset = min(flush.end_offset, offset)
