"""One round of compaction of one log: reads sealed segments, writes `.cleaned` files. Blocks, so it runs in a thread.

Source: `Cleaner.doClean`, `buildOffsetMap`, `cleanSegments` of Kafka. The state of the log is copied into the round on
the loop (`plan`), so the thread does not access the log; on the loop the written files replace the segments
(`PartitionLog.replace_segments`). Memory: the offset map (at most `CleanerLimits.map_bytes`), a block of batches and
their columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trimaran.log.batches.batch import ATTRIBUTES_COMPRESSION, BatchView, has_valid_crc, header_at
from trimaran.log.compaction.batches import Run, clean_run
from trimaran.log.compaction.choosing import GroupMember, group
from trimaran.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from trimaran.log.compaction.retention import Retention
from trimaran.log.compaction.transactions import CleanedTransactions
from trimaran.log.config import LogConfig
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.old_formats.old_batches import as_v2
from trimaran.log.segments.scan import is_plausible
from trimaran.log.segments.segment import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
)
from trimaran.log.segments.transaction_index import AbortedTransaction
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.identity import NO_OFFSET, Offset

# Kafka's log.cleaner.io.buffer.size. With 1 MiB, glibc would allocate every block from the system and return it: 50 %
# more CPU.
BLOCK_BYTES = 512 << 10


class Uncleanable(Exception):
    """The log cannot be compacted; the message gives the place and the reason. It is no longer compacted."""


class CleaningStopped(Exception):
    """The round was cancelled, or the log was deleted."""


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """log.cleaner.dedupe.buffer.size and log.cleaner.io.buffer.load.factor."""

    map_bytes: int = 128 << 20
    load_factor: float = 0.9

    def offset_map(self, count: int, key: bytes) -> OffsetMap:
        """Returns an offset map large enough for `count` offsets, within the limits. `key`: 16 secret random
        bytes.
        """
        slots = max(2, min(self.map_bytes // SLOT_BYTES, int(count / self.load_factor) + 2))
        return OffsetMap(slots, max(1, min(slots - 1, int(slots * self.load_factor))), key)


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A sealed segment at the time of the plan."""

    segment: Segment  # compared, and used as a name
    size: int
    base_offset: Offset
    next_base_offset: Offset


class CleanedSegment(Segment):
    """The new segment, while its files have the suffix `.cleaned`."""

    def path(self, suffix: str) -> Path:
        name = file_name(self.base_offset, suffix)
        return self.directory / (name + CLEANED_SUFFIX)


@dataclass(slots=True)
class Round:
    """A round of compaction. `pause(bytes)` throttles and raises CleaningStopped; `aborted` are the aborted
    transactions that overlap the range.
    """

    directory: Path
    files: Files
    config: LogConfig
    sources: Sequence[SourceSegment]  # beginning with the first segment of the log
    first_dirty_offset: Offset
    retention: Retention
    aborted: Sequence[AbortedTransaction]
    offsets: OffsetMap
    pause: Callable[[int], None]
    latest_offset: Offset = NO_OFFSET
    bytes_read: int = 0
    bytes_written: int = 0
    _transactions: CleanedTransactions = field(init=False)

    def __post_init__(self) -> None:
        self._transactions = CleanedTransactions(self.aborted)

    # First pass

    def build_map(self) -> Offset:
        """Records the newest offset of every key, for as much of the dirty part as fits into the map; returns the end
        of that part.

        Raises Uncleanable, CleaningStopped, OSError.
        """
        transactions = CleanedTransactions(self.aborted)
        for source in self.sources:
            if source.next_base_offset <= self.first_dirty_offset:
                continue
            for run in self._runs(source):
                if not self._note(run, transactions, source):
                    return self._mapped_end(source)
            self.latest_offset = source.next_base_offset - 1
        return self.latest_offset + 1

    def _mapped_end(self, source: SourceSegment) -> Offset:
        if self.latest_offset < self.first_dirty_offset:
            raise Uncleanable(
                f"{source.segment!r}: the keys of one batch at {self.first_dirty_offset} do not fit into the offset "
                f"map;"
                " log.cleaner.dedupe.buffer.size must be larger"
            )
        return self.latest_offset + 1

    def _note(self, run: Run, transactions: CleanedTransactions, source: SourceSegment) -> bool:
        """Adds records to the map; returns whether there was room for all of them."""
        batches, wanted = run.batches, []
        for index, batch in enumerate(batches):
            unneeded = transactions.is_unneeded(batch)
            if not batch.is_control and not unneeded and batch.count:
                wanted.append(index)
        try:
            body = run.body(0) if run.block is None and wanted else None
            for place, columns in run.columns(wanted, body):
                row = self.offsets.put_all(columns, self.first_dirty_offset)
                if row < len(columns):
                    full = batches[wanted[place + columns.batch[row]]]
                    before = [b.last_offset for b in batches if b.last_offset < full.base_offset]
                    self.latest_offset = max([self.latest_offset, *before])
                    return False
        except RemoteProtocolError as error:
            raise Uncleanable(f"{source.segment!r}: {error}") from error
        self.latest_offset = batches[-1].last_offset
        return True

    # Second pass

    def groups(self, end_offset: Offset) -> list[list[SourceSegment]]:
        """Returns the sources below `end_offset`, grouped by the segment that they are merged into."""
        sources = [source for source in self.sources if source.base_offset < end_offset]
        members = [
            GroupMember(
                source.base_offset,
                source.next_base_offset,
                source.size,
                self._file_size(source.segment.path(INDEX_SUFFIX)),
                self._file_size(source.segment.path(TIME_INDEX_SUFFIX)),
            )
            for source in sources
        ]
        return [[sources[i] for i in indices] for indices in group(members, self.config)]

    def _file_size(self, path: Path) -> int:
        try:
            return self.files.status(path).size
        except FileNotFoundError:
            return 0

    def clean(self, sources: Sequence[SourceSegment]) -> CleanedSegment:
        """Durably writes the kept records of the sources; groups are written in order. Raises Uncleanable,
        CleaningStopped, OSError.
        """
        base_offset = sources[0].base_offset
        for suffix in SEGMENT_SUFFIXES:
            self.files.unlink(self.directory / (file_name(base_offset, suffix) + CLEANED_SUFFIX))
        cleaned = CleanedSegment(self.directory, base_offset, self.files, size=0, created=True)
        cleaned.create()
        if any(self._file_size(s.segment.path(TRANSACTION_INDEX_SUFFIX)) for s in sources):
            cleaned.transaction_index.file()  # written even if it is empty: it replaces the old one
        try:
            for source in sources:
                for run in self._runs(source):
                    self._write(cleaned, run, source)
            cleaned.seal()
            self._sync(cleaned)
            self._keep_age(cleaned, sources[-1])
        except (Uncleanable, CleaningStopped):
            self.discard(cleaned)
            raise
        return cleaned

    def discard(self, cleaned: Segment) -> None:
        """Removes files that have not replaced segments."""
        for suffix in SEGMENT_SUFFIXES:
            self.files.unlink(cleaned.path(suffix))

    def _write(self, cleaned: CleanedSegment, run: Run, source: SourceSegment) -> None:
        verdicts = [self.retention.verdict(batch, self._transactions) for batch in run.batches]
        for aborted in self._transactions.kept_aborts:
            cleaned.transaction_index.append(aborted)
        self._transactions.kept_aborts.clear()
        try:
            kept = clean_run(run, verdicts, self.offsets, self.latest_offset, self.retention)
        except RemoteProtocolError as error:
            raise Uncleanable(f"{source.segment!r}: {error}") from error
        if kept:
            data = run.bytes_of(kept)
            cleaned.append(data, kept, self.config.index_interval_bytes)
            self.bytes_written += len(data)
            self.pause(len(data))

    def _sync(self, cleaned: CleanedSegment) -> None:
        for suffix in SEGMENT_SUFFIXES:
            try:
                file = self.files.open(cleaned.path(suffix))
            except FileNotFoundError:
                continue
            self.files.fdatasync(file)

    def _keep_age(self, cleaned: CleanedSegment, last: SourceSegment) -> None:
        """Copies the file time of a segment: if records have no timestamps, `retention.ms` counts from the time of
        writing.
        """
        try:
            modified_ms = self.files.status(last.segment.path(LOG_SUFFIX)).modified_ms
        except FileNotFoundError:
            raise CleaningStopped(f"{last.segment!r} is gone") from None
        self.files.set_modified(cleaned.path(LOG_SUFFIX), modified_ms)

    # Reading

    def _runs(self, source: SourceSegment) -> Iterator[Run]:
        """Yields all batches of a source, whole and checked, in runs; a compressed batch is a run of its own, because
        it may expand.
        """
        try:
            file = self.files.open(source.segment.path(LOG_SUFFIX), write=False)
        except FileNotFoundError:
            raise CleaningStopped(f"{source.segment!r} is gone") from None
        position = 0
        while position < source.size:
            block = self._read(file, position, source.size - position)
            run: list[BatchView] = []
            positions: list[int] = []
            at = 0
            for found in _whole_batches(block):
                self._check(found, source, position + at)
                batch = self._of_v2(found, source)
                if batch is found and not batch.attributes & ATTRIBUTES_COMPRESSION:
                    run.append(batch)
                    positions.append(at)
                else:
                    if run:
                        yield Run(run, block, positions)
                    yield Run([batch])
                    run, positions = [], []
                at += found.size
            if run:
                yield Run(run, block, positions)
            if not at:
                raise Uncleanable(f"{source.segment!r}: no whole batch at position {position}")
            position += at

    def _read(self, file: OpenFile, position: int, left: int) -> memoryview:
        block = self.files.pread(file, min(BLOCK_BYTES, left), position)
        header = header_at(block, 0)
        if header is not None and len(block) < header.size <= left:
            block = self.files.pread(file, header.size, position)
        self.bytes_read += len(block)
        self.pause(len(block))
        return memoryview(block)

    @staticmethod
    def _of_v2(batch: BatchView, source: SourceSegment) -> BatchView:
        """Returns the batch in format v2: as in Kafka, kept records of old formats are written as v2."""
        try:
            return as_v2(batch, keep_codec=True)
        except RemoteProtocolError as error:
            raise Uncleanable(f"{source.segment!r}: {error}") from error

    @staticmethod
    def _check(batch: BatchView, source: SourceSegment, position: int) -> None:
        if not has_valid_crc(batch):
            raise Uncleanable(f"{source.segment!r}: wrong CRC at position {position}")


def _whole_batches(block: memoryview) -> Iterator[BatchView]:
    at = 0
    while True:
        batch = header_at(block, at)
        if batch is None or not is_plausible(batch) or batch.size > len(block) - at:
            return
        batch.buffer = block[at : at + batch.size]
        yield batch
        at += batch.size
