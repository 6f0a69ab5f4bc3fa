"""The log of one partition as bytes on disk: segments that are written, rolled, read as slices, flushed and truncated.

Source: Kafka's `LocalLog`. `log/partitions/partition_log.py` handles the meaning of the records: epochs, producers, the
start of the log.

Errors: KafkaError with the code for the client. Any OSError takes the whole log directory offline
(`log/durability/health.py`): after the first failed append, no append succeeds (KAFKA-10778).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.log.disk.files import Files
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.durability.flush import Flush, Flushing, Names
from trimaran.log.durability.health import DirectoryHealth
from trimaran.log.partitions.retention import date_oldest
from trimaran.log.segments.in_steps import rebuild_in_steps
from trimaran.log.segments.index import IndexLost
from trimaran.log.segments.segment import Segment, SegmentDamaged
from trimaran.log.segments.segments import Segments
from trimaran.log.segments.slices import LogSlice
from trimaran.log.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import Offset, Position

T = TypeVar("T")


class Cut(NamedTuple):
    """The place of a truncation: in `segment`, at the batch at `position`, or after its last batch (None); the log then
    ends at `offset`.
    """

    segment: Segment
    position: Position | None
    offset: Offset


class LocalLog:
    """Segments up to `log_end_offset`; records below `flushed_offset` are durable.

    Invariants: segments ascend without overlap, and the last one is active; `flushed_offset` never exceeds the end of
    the last completed flush, and truncation lowers it. Methods with an underscore are for `PartitionLog`; unless
    documented otherwise they raise OSError and SegmentDamaged.
    """

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        segments: list[Segment],
        epochs: LeaderEpochs,
        *,
        files: Files,
        health: DirectoryHealth,
    ) -> None:
        """Takes at least one segment; `epochs` are flushed with the segments, because they describe them."""
        self.directory = directory
        self.config = config
        self.files = files
        self.health = health
        self._segments = Segments(directory, segments, files)
        self._flushing = Flushing(directory, epochs, files, health)
        self.log_end_offset = segments[-1].next_offset
        self.truncations = 0  # since it was opened
        self.is_closed = False
        self._lost_indexes: set[Segment] = set()

    # Facts

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_base_offsets(self) -> Sequence[Offset]:
        return tuple(self._segments.bases)

    @property
    def sealed_segments(self) -> Sequence[Segment]:
        """Returns all segments except the active one, in ascending order."""
        return self._segments.all[:-1]

    @property
    def active_segment(self) -> Segment:
        return self._segments.active

    @property
    def removals(self) -> int:
        """Returns the number of segments removed since the log was opened: truncated, expired or compacted."""
        return self._segments.removals

    @property
    def flushed_offset(self) -> Offset:
        return self._flushing.flushed_offset

    @property
    def names(self) -> Names:
        """Returns the names of the files, which change when the directory is renamed."""
        return self._flushing.names

    def storage(self, what: str) -> AbstractContextManager[None]:
        """Guards the file operations of this log: an OSError takes the directory offline and becomes
        KAFKA_STORAGE_ERROR.
        """
        return self.health.guard(what)

    @contextmanager
    def _lookup(self, what: str) -> Iterator[None]:
        """Guards as `storage` does, for look-ups by indexes and headers."""
        with self.health.guard(f"{what} in {self.directory}"):
            try:
                yield
            except SegmentDamaged as damage:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage)) from damage

    def _while_it_lasts(self, steps: Steps[T], removals: int | None = None) -> Steps[T]:
        """Runs `steps` unless the log changes meanwhile: a truncation invalidates their result, and a closed log may
        rename its files. If `removals` is given, no segment may have been removed since then either.

        Raises KafkaError: NOT_LEADER_OR_FOLLOWER, the log has changed.
        """
        before = self.truncations
        while True:
            is_as_before = self.truncations == before and removals in (None, self.removals)
            if self.is_closed or not is_as_before:
                steps.close()
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} has changed")
            try:
                done = next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            yield done

    # Writing

    def _base_of_next(self, first_offset: Offset, last_offset: Offset) -> Offset:
        """Returns the base offset of a segment for these offsets: the log's end, unless the last offset is too far from
        it for an index.
        """
        is_near = last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
        return self.log_end_offset if is_near else first_offset

    def _begin_segment(self, base_offset: Offset, now_ms: int) -> None:
        active = self._segments.active
        if active.size:
            active.seal()
            self._segments.add(base_offset, now_ms, self._preallocated_bytes)
        else:  # the next offset is too far from the segment's base
            self._segments.replace_active(base_offset, now_ms, self._preallocated_bytes)
        self._flushing.names_changed()

    def _create_files(self, active: Segment, now_ms: int) -> None:
        """Creates the files of the active segment before its first append."""
        active.opened_ms = now_ms
        active.create(self._preallocated_bytes)
        self._flushing.names_changed()

    @property
    def _preallocated_bytes(self) -> int:
        return self.config.segment_bytes if self.config.preallocate else 0

    # Reading

    def _read(
        self, offset: Offset, max_bytes: int, limit: Offset, *, min_one: bool
    ) -> LogSlice | None:
        """Reads as `PartitionLog.read` does; `limit` is at most the log's end, and above `offset`."""
        segments, interval = self._segments, self.config.index_interval_bytes
        at = bisect_right(segments.bases, offset) - 1
        start = None
        segment = segments.active
        while start is None:  # the offset may lie in a gap at a segment's end
            if at >= len(segments.all):
                return None
            segment = segments.all[at]
            if segment is not segments.active:
                segments.use(segment)
            try:
                start = segment.locate(offset, interval, rebuilds=False)
            except IndexLost:
                self._lost_indexes.add(segment)
                raise
            at += 1
        end = segment.size
        below = self.log_end_offset if at == len(segments.all) else segments.bases[at]
        if limit < below:
            below = limit
            position = segment.locate(limit, interval)
            end = segment.size if position is None else position
        if end > start + max_bytes:
            boundary = segment.boundary(start + max_bytes, start, interval)
            if boundary is not None:
                segment.hint(boundary)
                end, below = boundary.position, boundary.offset
            elif min_one:
                end = min(end, segment.end_of_batch(start))
            else:
                return None
        if end <= start:
            return None
        return LogSlice(segment.file, start, end - start, offset, below, self.files)

    @property
    def lacks_index(self) -> bool:
        """Whether a read has found that an index is lost, until `rebuild_lost` is done."""
        return bool(self._lost_indexes)

    def rebuild_lost(self) -> Steps[None]:
        """Rebuilds the indexes that reads have found to be lost. Raises KafkaError as `_while_it_lasts` does."""
        with self._lookup("rebuilding indexes"):
            while self._lost_indexes:
                segment = next(iter(self._lost_indexes))
                steps = rebuild_in_steps(segment, self.config.index_interval_bytes)
                yield from self._while_it_lasts(steps)
                self._lost_indexes.discard(segment)

    def date_oldest(self, now_ms: int, segments_max: int) -> Steps[None]:
        """Determines the ages of the oldest segments for `apply_retention`. Raises KafkaError as `_while_it_lasts`
        does.
        """
        with self.storage(f"retention of {self.directory}"):
            oldest = self._segments.all[:segments_max]
            yield from self._while_it_lasts(date_oldest(oldest, self.config, now_ms))

    # Flushing

    @property
    def must_flush(self) -> bool:
        """Whether the unflushed records require a flush: a whole segment, or `flush.messages` of them."""
        flushed = self._flushing.flushed_offset
        unflushed = self.log_end_offset - flushed
        is_rolled = self._segments.active.base_offset > flushed
        return is_rolled or unflushed >= self.config.flush_messages

    @property
    def needs_only_a_sync(self) -> bool:
        """Whether an fsync of the active segment suffices; see `Flushing.needs_only_a_sync`."""
        return self._flushing.needs_only_a_sync(self._segments.active)

    def prepare_flush(self) -> Flush:
        """Returns the files to fsync; it is cheap and called on the loop. Afterwards `Flush.run()` may run in a thread,
        and `finish_flush` runs on the loop.

        Raises OSError: the directory is or was offline.
        """
        # A segment that was sealed since the last flush has unsynced indexes, even if all its batches are synced.
        unflushed = self._segments.since(self.flushed_offset - 1)
        return self._flushing.prepare(self.log_end_offset, unflushed, self._segments.active)

    def finish_flush(self, flush: Flush) -> int:
        """Records the result of a flush, and returns the flushed offset. A failed flush changes nothing."""
        return self._flushing.finish(flush)

    def flush(self) -> int:
        """Flushes in all three steps; blocks. Raises KafkaError KAFKA_STORAGE_ERROR."""
        with self.storage("flush"):
            flush = self.prepare_flush()
            try:
                flush.run()
            finally:
                self.finish_flush(flush)
        return self.flushed_offset

    def note_synced(self) -> None:
        """Notes that the volume was synced after `PartitionLog.close_unsynced`."""
        self._flushing.flushed_offset = self.log_end_offset
        self._flushing.touched = False

    @property
    def must_close(self) -> bool:
        """Whether a clean close must write; False if the log was not written since it was opened. A log that was
        emptied also has a file, which may be preallocated.
        """
        is_written = self.log_end_offset > 0 or self.active_segment.exists
        return self._flushing.touched and is_written

    # Shortening

    def _place_of_cut(self, offset: Offset) -> Cut:
        """Returns the cut for an end at `offset`, which is above the base of the first segment; a batch with a record
        at `offset` or above is removed as a whole.
        """
        segment, interval = self._segments.since(offset - 1)[0], self.config.index_interval_bytes
        position = segment.locate(offset, interval)
        # The end must not lie in a gap left by compaction: recovery would find a lower end, below the flushed offset.
        end = segment.end_before(segment.size if position is None else position, interval)
        return Cut(segment, position, end)

    def _cut(self, cut: Cut) -> None:
        segments, interval = self._segments, self.config.index_interval_bytes
        segment, position, offset = cut
        if segments.active is not segment:
            while segments.active is not segment:
                segments.drop_last()
            # Otherwise a crash could restore them after the cut segment; in a compacted log the hole would not be
            # noticed.
            self.files.fsync_directory(self.directory)
        if position is not None:
            segment.truncate(position, offset, interval)
        else:
            segment.load_tail(interval)
            segment.next_offset = offset
        self.log_end_offset = offset

    def _restart_at(self, offset: Offset) -> None:
        """Removes all segments and adds an empty one at `offset`."""
        while len(self._segments):
            self._segments.drop_last()
        self._segments.add(offset, 0, self._preallocated_bytes)
        self.files.fsync_directory(self.directory)  # otherwise a crash could restore the old end
        self.log_end_offset = offset
        self._flushing.emptied(offset)

    def purge(self, now_ms: int | None = None) -> None:
        """Unlinks the files of removed segments; if the time is given, only of those removed at least
        `file.delete.delay.ms` ago.

        It blocks (a large file takes a while) and may run in a thread. Raises KafkaError.
        """
        with self.storage(f"deleting in {self.directory}"):
            self._segments.purge(now_ms, self.config.file_delete_delay_ms)
