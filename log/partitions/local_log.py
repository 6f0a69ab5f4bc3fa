"""The log of one partition as bytes on a disk: segments that are rolled, written, read as slices, flushed and cut.

Source: Kafka's `LocalLog`. `log/partitions/partition_log.py` knows the meaning of the records: epochs, producers, the
start of the log.

Errors: KafkaError with the code a client gets. An OSError anywhere takes the whole log directory offline
(`log/durability/health.py`): from the first failed append on, none succeeds (KAFKA-10778).
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
from trimaran.wire.identity import Offset

T = TypeVar("T")


class Cut(NamedTuple):
    """The place of a truncation: `segment` at the batch at `position`, or behind its last one (None); the log then ends
    at `offset`.
    """

    segment: Segment
    position: int | None
    offset: Offset


class LocalLog:
    """Segments up to `log_end_offset`; those below `flushed_offset` are durable.

    Invariants: segments ascend without overlap, the last is the one appended to; `flushed_offset` never passes what a
    finished flush covered, and is lowered by truncation. Methods with an underscore are for `PartitionLog` and raise
    OSError and SegmentDamaged where they do not say otherwise.
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
        """`segments` has one element at the least; `epochs` are flushed with them, as they explain them."""
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
    def segment_base_offsets(self) -> Sequence[int]:
        return tuple(self._segments.bases)

    @property
    def sealed_segments(self) -> Sequence[Segment]:
        """All but the active one, ascending."""
        return self._segments.all[:-1]

    @property
    def active_segment(self) -> Segment:
        return self._segments.active

    @property
    def removals(self) -> int:
        """How many segments have left the log since it was opened: cut, expired or compacted."""
        return self._segments.removals

    @property
    def flushed_offset(self) -> Offset:
        return self._flushing.flushed_offset

    @property
    def names(self) -> Names:
        """The names of the files, for renaming of the directory."""
        return self._flushing.names

    def storage(self, what: str) -> AbstractContextManager[None]:
        """For file calls on behalf of this log: an OSError takes the directory offline
        and becomes KAFKA_STORAGE_ERROR.
        """
        return self.health.guard(what)

    @contextmanager
    def _lookup(self, what: str) -> Iterator[None]:
        """As `storage`, for what finds its way by indexes and headers."""
        with self.health.guard(f"{what} in {self.directory}"):
            try:
                yield
            except SegmentDamaged as damage:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(damage)) from damage

    def _while_it_lasts(self, steps: Steps[T], removals: int | None = None) -> Steps[T]:
        """Runs `steps` unless the log changes under them: a truncation makes what they found wrong, and a closed log
        gives its files other names. Given `removals`, no segment may have left the log since then either.

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
        """The base of a segment for these offsets: the log's end, unless the last is too far from it for an index."""
        is_near = last_offset - self.log_end_offset <= RELATIVE_OFFSET_MAX
        return self.log_end_offset if is_near else first_offset

    def _begin_segment(self, base_offset: Offset, now_ms: int) -> None:
        active = self._segments.active
        if active.size:
            active.seal()
            self._segments.add(base_offset, now_ms, self._preallocated_bytes)
        else:  # the next offset is too far from its base
            self._segments.replace_active(base_offset, now_ms, self._preallocated_bytes)
        self._flushing.names_changed()

    def _create_files(self, active: Segment, now_ms: int) -> None:
        """Makes the files of the active segment before its first append."""
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
        """See `PartitionLog.read`; `limit` is at most the log's end, and above `offset`."""
        segments, interval = self._segments, self.config.index_interval_bytes
        at = bisect_right(segments.bases, offset) - 1
        start = None
        segment = segments.active
        while start is None:  # the offset may fall into a gap at a segment's end
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
        below = self.log_end_offset if at == len(segments.all) else Offset(segments.bases[at])
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
        """Whether a read was refused for that, until `rebuild_lost` is through."""
        return bool(self._lost_indexes)

    def rebuild_lost(self) -> Steps[None]:
        """Rebuilds the indexes that reads did without. Raises KafkaError as `_while_it_lasts`."""
        with self._lookup("rebuilding indexes"):
            while self._lost_indexes:
                segment = next(iter(self._lost_indexes))
                steps = rebuild_in_steps(segment, self.config.index_interval_bytes)
                yield from self._while_it_lasts(steps)
                self._lost_indexes.discard(segment)

    def date_oldest(self, now_ms: int, segments_max: int) -> Steps[None]:
        """Learns how old the oldest segments are, before `apply_retention` asks. Raises KafkaError as
        `_while_it_lasts`.
        """
        with self.storage(f"retention of {self.directory}"):
            oldest = self._segments.all[:segments_max]
            yield from self._while_it_lasts(date_oldest(oldest, self.config, now_ms))

    # Flushing

    @property
    def must_flush(self) -> bool:
        """Write-behind has left enough: a whole segment, or `flush.messages`."""
        flushed = self._flushing.flushed_offset
        unflushed = self.log_end_offset - flushed
        is_rolled = self._segments.active.base_offset > flushed
        return is_rolled or unflushed >= self.config.flush_messages

    @property
    def needs_only_a_sync(self) -> bool:
        """As `Flushing.needs_only_a_sync`."""
        return self._flushing.needs_only_a_sync(self._segments.active)

    def prepare_flush(self) -> Flush:
        """Returns the files to fsync now; cheap, on the loop. `Flush.run()` may then run in a thread, `finish_flush` on
        the loop.

        Raises OSError: the directory is offline, now or before.
        """
        # A segment that was sealed since its last flush has indexes to be synced, although all of its batches are.
        unflushed = self._segments.since(self.flushed_offset - 1)
        return self._flushing.prepare(self.log_end_offset, unflushed, self._segments.active)

    def finish_flush(self, flush: Flush) -> int:
        """Notes what a flush made durable, and returns the flushed offset. A failed flush changes nothing."""
        return self._flushing.finish(flush)

    def flush(self) -> int:
        """All three steps; blocks. Raises KafkaError KAFKA_STORAGE_ERROR."""
        with self.storage("flush"):
            flush = self.prepare_flush()
            try:
                flush.run()
            finally:
                self.finish_flush(flush)
        return self.flushed_offset

    def note_synced(self) -> None:
        """The volume was synced after `PartitionLog.close_unsynced`."""
        self._flushing.flushed_offset = self.log_end_offset
        self._flushing.touched = False

    @property
    def must_close(self) -> bool:
        """Whether a clean close has anything to write: not where nothing was written since the log was opened. A log
        that was emptied has a file, too, which may be preallocated.
        """
        is_written = self.log_end_offset > 0 or self.active_segment.exists
        return self._flushing.touched and is_written

    # Shortening

    def _place_of_cut(self, offset: Offset) -> Cut:
        """For an end at `offset`, above the first segment's base; a batch with a record at `offset` or above goes as a
        whole.
        """
        segment, interval = self._segments.since(offset - 1)[0], self.config.index_interval_bytes
        position = segment.locate(offset, interval)
        # Not in a gap that compaction left: a recovery would find another end, below what counts as flushed.
        end = segment.end_before(segment.size if position is None else position, interval)
        return Cut(segment, position, end)

    def _cut(self, cut: Cut) -> None:
        segments, interval = self._segments, self.config.index_interval_bytes
        segment, position, offset = cut
        if segments.active is not segment:
            while segments.active is not segment:
                segments.drop_last()
            # Else a crash could bring them back behind what is cut below; in a compacted log the hole would not be
            # noticed.
            self.files.fsync_directory(self.directory)
        if position is not None:
            segment.truncate(position, offset, interval)
        else:
            segment.load_tail(interval)
            segment.next_offset = offset
        self.log_end_offset = offset

    def _begin_anew(self, offset: Offset) -> None:
        """Removes all segments; an empty one starts at `offset`."""
        while len(self._segments):
            self._segments.drop_last()
        self._segments.add(offset, 0, self._preallocated_bytes)
        self.files.fsync_directory(self.directory)  # else a crash could bring the old end back
        self.log_end_offset = offset
        self._flushing.emptied(offset)

    def purge(self, now_ms: int | None = None) -> None:
        """Unlinks the files of removed segments; given the time, those removed `file.delete.delay.ms` ago.

        Blocks (a large file takes a while); may run in a thread. Raises KafkaError.
        """
        with self.storage(f"deleting in {self.directory}"):
            self._segments.purge(now_ms, self.config.file_delete_delay_ms)
