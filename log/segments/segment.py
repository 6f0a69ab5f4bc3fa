"""A segment: one file of consecutive batches, with its two sparse indexes.

Source: Kafka's `LogSegment`. The positions of the newest batches are kept in memory (`_tail_…`), so that reads near the
end (nearly all reads) need no I/O to find their position.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import HEADER_BYTES, BatchView, header_at
from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.disk.named_file import NamedFile
from trimaran.log.segments.index import (
    Entry,
    IndexDamaged,
    IndexLost,
    OffsetIndex,
    TimeIndex,
)
from trimaran.log.segments.scan import FIRST_BLOCK_BYTES, is_plausible, scan_headers
from trimaran.log.segments.transaction_index import TransactionIndex
from trimaran.log.steps import Steps, at_once
from trimaran.wire.identity import NO_OFFSET, NO_TIMESTAMP, LeaderEpoch, Offset, Position

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TRANSACTION_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
# The `.log` is created last and removed first: while it exists, the files that belong to it also exist.
SEGMENT_SUFFIXES = (*INDEX_SUFFIXES, LOG_SUFFIX)

TAIL_BATCHES_MAX = 2048  # 32 KiB of memory for a busy partition; older reads use the index
# Headers further apart than this are read one by one; for smaller batches, one read yields several headers.
LARGE_BATCH_BYTES = 2 * FIRST_BLOCK_BYTES
REBUILT_AT_ONCE_BYTES = 1 << 20  # 10 ms of work if batches are small
HINTS_MAX = 32  # sequential readers of an old segment with a remembered next position

Headers = Iterator[tuple[Position, BatchView]]  # with the positions of their batches
_Place = tuple[Position, Headers]
_Newest = tuple[int, int]  # a timestamp, and the last offset of its batch


class SegmentDamaged(Exception):
    """Bytes that must be valid batches are invalid; the message names file and position."""


class Boundary(NamedTuple):
    """A position between two batches; `offset` is the offset at which a reader of all batches before it continues."""

    position: Position
    offset: Offset


class SegmentRoom(NamedTuple):
    """The bounds within which `must_roll` is False: position `end`, `last_offset`, timestamp `newest_ms`."""

    config: LogConfig
    end: Position
    last_offset: Offset
    newest_ms: int


NO_ROOM = SegmentRoom(LogConfig(), Position(-1), NO_OFFSET, NO_TIMESTAMP)


def file_name(base_offset: Offset, suffix: str) -> str:
    return f"{base_offset:020d}{suffix}"


class Segment:
    """The offsets [base_offset, next_offset) in `size` bytes.

    `next_offset`, `max_timestamp` and the tail are known for a new segment, and after `load_tail` or `rebuild`.
    """

    def __init__(
        self, directory: Path, base_offset: Offset, files: Files, *, size: int, created: bool
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.files = files
        self.size = Position(size)
        self.next_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset  # last offset of the batch that has it
        self.first_timestamp: int | None = None  # max timestamp of the first batch: age for rolling
        self.opened_ms = 0
        self.offset_index = OffsetIndex(self.path(INDEX_SUFFIX), files, created=created)
        self.time_index = TimeIndex(self.path(TIME_INDEX_SUFFIX), files, created=created)
        self.transaction_index = TransactionIndex(self.path(TRANSACTION_INDEX_SUFFIX), files)
        self._log_file = NamedFile(self.path(LOG_SUFFIX), files)
        self.exists = not created  # whether the files exist on the disk
        self.removed = False  # whether it was removed from the log; readers keep their open files
        self.last_epoch: LeaderEpoch | None = None  # of the last batch
        self.max_is_known = created
        self._is_preallocated = False  # there are zeros after `size`
        self.room = NO_ROOM  # reset by every change except an append
        self._bytes_since_index = 0
        # The elements of an array can only be typed as `int`.
        self._tail_last_offsets: MutableSequence[Offset] = array("q")  # type: ignore[assignment]
        self._tail_positions: MutableSequence[Position] = array("q")  # type: ignore[assignment]
        self._tail_floor: Offset | None = None  # last offset before the tail; None: no tail
        self._hints: dict[Offset, Position] = {}
        if created:
            self._tail_floor = base_offset - 1

    def __repr__(self) -> str:
        return f"segment {self.base_offset} of {self.size} bytes in {self.directory.name}"

    def path(self, suffix: str) -> Path:
        return self.directory / file_name(self.base_offset, suffix)

    @property
    def file(self) -> OpenFile:
        """Returns the open `.log`; creates it if the segment is new and has not been written yet."""
        if self.exists:
            return self._log_file.get()
        file = self._log_file.get(create=True)
        self.files.truncate(file, 0)  # truncates a leftover of the same name
        self.exists = True
        return file

    def release(self) -> None:
        """Closes the files of a sealed segment and drops its tail, until the next use (readers keep their files)."""
        self._log_file.close()
        self.offset_index.release()
        self.time_index.release()
        self._tail_floor = None
        del self._tail_last_offsets[:], self._tail_positions[:]

    # Writing

    def append(self, data: memoryview, views: Sequence[BatchView], index_interval: int) -> None:
        """Writes `data`, which is exactly `views`, in one call. Raises OSError."""
        position = self.size
        file = self._log_file.get() if self.exists else self.file
        self.files.pwrite(file, data, position)
        for view in views:
            self._note(position, view, index_interval)
            position += view.size
        self.size = position

    def _note(self, position: Position, view: BatchView, index_interval: int) -> None:
        last_offset = view.base_offset + view.last_offset_delta
        timestamp = view.max_timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if self._bytes_since_index > index_interval:
            self.offset_index.append(last_offset - self.base_offset, position)
            self._note_time()
            self._bytes_since_index = 0
        self._bytes_since_index += view.size
        self.last_epoch = view.leader_epoch
        self.next_offset = last_offset + 1
        self._tail_last_offsets.append(last_offset)
        positions = self._tail_positions
        positions.append(position)
        if len(positions) > TAIL_BATCHES_MAX:
            half = TAIL_BATCHES_MAX // 2
            self._tail_floor = self._tail_last_offsets[half - 1]
            del self._tail_last_offsets[:half], positions[:half]

    def _note_time(self) -> None:
        last = self.time_index.last
        if self.max_timestamp > (NO_TIMESTAMP if last is None else last[0]):
            relative = self.max_timestamp_offset - self.base_offset
            self.time_index.append(self.max_timestamp, relative)

    def index_files(self) -> list[OpenFile]:
        """Returns the files of the indexes, after writing pending entries."""
        files = [self.offset_index.reopen_for_use(), self.time_index.reopen_for_use()]
        return [*files, *self.transaction_index_files()]

    def transaction_index_files(self) -> list[OpenFile]:
        """Returns the transaction index, if any, even if emptied: else a crash would restore truncated entries."""
        index = self.transaction_index
        try:
            return [index.file()] if index.changed or index.exists else []
        except IndexDamaged:
            return []  # the next reader rebuilds it

    def create(self, preallocated_bytes: int = 0) -> None:
        """Creates the three files of a new segment, empty, because Kafka's tools expect them. Raises OSError."""
        file = self.file
        if preallocated_bytes and not self._is_preallocated:
            self.files.preallocate(file, preallocated_bytes)
            self._is_preallocated = True
        self.write_indexes()

    def seal(self) -> None:
        """Completes the indexes of a segment to which no more records will be appended soon. Raises OSError."""
        if self._is_preallocated:
            self.files.truncate(self.file, self.size)
            self._is_preallocated = False
        self._note_time()
        self.write_indexes()

    def write_indexes(self) -> None:
        self.offset_index.write_pending()
        self.time_index.write_pending()

    def truncate(self, position: Position, next_offset: Offset, index_interval: int) -> None:
        """Truncates the file at `position`, a batch boundary; `next_offset` is the new end. Raises OSError."""
        self.files.truncate(self.file, position)
        self._is_preallocated = False
        self.size = position
        self._hints.clear()
        self._keep_indexes_below(position, next_offset)
        self.transaction_index.truncate_to(next_offset)
        self.load_tail(index_interval)
        self.next_offset = next_offset

    def _keep_indexes_below(self, position: Position, next_offset: Offset) -> None:
        try:
            self.offset_index.keep(self.offset_index.ceiling(position, field=1))
            self.time_index.keep(self.time_index.ceiling(next_offset - self.base_offset, field=1))
        except IndexDamaged:
            self.offset_index.clear()
            self.time_index.clear()

    # Loading

    def load_tail(self, index_interval: int, *, is_clean: bool = False) -> int:
        """Reads the headers from the last index entry on; returns the position where valid headers end.

        Indexes that are missing, damaged, or do not fit the batches are rebuilt. If the log `is_clean`, the time index
        is complete; otherwise all headers after its last entry are read (many, if timestamps decrease). Raises OSError.
        """
        try:
            entry = self.offset_index.last
            time_entry = self.time_index.last
        except IndexDamaged:
            return self.rebuild(index_interval)
        start = 0 if entry is None else entry[1]
        if time_entry is not None and (entry is None or time_entry[1] > entry[0]):
            # The entry that `seal` adds may lie above the offset index; it is recreated from the batches.
            self.time_index.set_aside(
                self.time_index.ceiling(entry[0] + 1 if entry else 0, field=1)
            )
        newest = at_once(self.newest_before(start, is_complete=is_clean))
        if newest is None:
            return self.rebuild(index_interval)
        self._reset(entry, newest)
        reached = start
        for position, view in scan_headers(self.files, self.file, start, self.size):
            if position == start and entry and view.last_offset != self.base_offset + entry[0]:
                return self.rebuild(index_interval)
            if not self.can_hold(view, self.next_offset):
                break
            self._note(position, view, index_interval)
            reached = position + view.size
        if entry and reached == start:
            return self.rebuild(index_interval)
        self._remember_first_timestamp()
        return reached

    def newest_before(self, end: int, *, is_complete: bool = False) -> Steps[_Newest | None]:
        """Returns the largest timestamp before position `end`, by the time index and the headers after its last entry;
        None if the index does not match the batches.
        """
        last = self.time_index.last
        newest = (NO_TIMESTAMP, self.base_offset)
        start = 0
        if last is not None:
            newest = (last[0], self.base_offset + last[1])
            indexed = self.offset_index.floor(last[1])
            start = indexed[1] if indexed else 0
        elif self.offset_index.entries:
            return newest if is_complete else None
        checked = last is None
        for position, view in scan_headers(self.files, self.file, start, self.size):
            yield 1
            if checked and position >= end:
                break
            if not checked and view.last_offset >= newest[1]:
                if (view.max_timestamp, view.last_offset) != newest:
                    return None
                checked = True
                if is_complete:
                    break
            if view.max_timestamp > newest[0]:
                newest = (view.max_timestamp, view.last_offset)
        return newest if checked else None

    def _reset(self, entry: tuple[int, int] | None, newest: tuple[int, int]) -> None:
        self.room = NO_ROOM
        self._bytes_since_index = 0
        self.max_is_known = True
        self.last_epoch = None
        del self._tail_last_offsets[:], self._tail_positions[:]
        # The batch before the indexed one is unknown, so the tail serves only offsets above the indexed batch.
        self._tail_floor = self.base_offset + (entry[0] if entry else -1)
        self.next_offset = self.base_offset
        self.max_timestamp, self.max_timestamp_offset = newest[0], Offset(newest[1])
        self.first_timestamp = None

    def _remember_first_timestamp(self) -> None:
        for _, view in self._headers(0):
            self.first_timestamp = view.max_timestamp
            return

    def rebuild(self, index_interval: int) -> int:
        """Rebuilds both indexes from all headers; returns the end of the valid headers. Raises OSError."""
        return at_once(self.rebuild_steps(index_interval))

    def rebuild_steps(self, index_interval: int) -> Steps[int]:
        # No other code uses the segment in the meantime.
        self._hints.clear()
        self.offset_index.clear()
        self.time_index.clear()
        self._reset(None, (NO_TIMESTAMP, self.base_offset))
        reached = 0
        for position, view in scan_headers(self.files, self.file, 0, self.size):
            yield 1
            if not self.can_hold(view, self.next_offset):
                break
            self._note(position, view, index_interval)
            reached = position + view.size
        self.seal()
        return reached

    def take_over(self, twin: Segment) -> None:
        """Adopts the indexes of `twin`, which were rebuilt separately from the same bytes."""
        self.room = NO_ROOM
        self.offset_index, self.time_index = twin.offset_index, twin.time_index
        self.max_timestamp, self.max_is_known = twin.max_timestamp, True
        self.max_timestamp_offset = twin.max_timestamp_offset
        self._hints.clear()

    @property
    def may_be_written_to(self) -> bool:  # it is the active segment, or was until it was released
        return self._tail_floor is not None

    def can_hold(self, view: BatchView, expected_offset: Offset) -> bool:
        """Whether the batch continues the offsets. The CRC does not cover them, so damaged ones may have any value."""
        return (
            view.base_offset >= expected_offset
            and view.last_offset - self.base_offset <= RELATIVE_OFFSET_MAX
        )

    # Finding

    def end_of_batch(self, position: Position) -> Position:
        """Returns the end of the batch at `position`."""
        positions = self._tail_positions
        if positions and position >= positions[0]:
            at = bisect_right(positions, position)
            return positions[at] if at < len(positions) else self.size
        for _, view in self._headers(position):
            return position + view.size
        raise SegmentDamaged(f"{self.path(LOG_SUFFIX)}: no batch at position {position}")

    def end_before(self, position: Position, index_interval: int) -> Offset:
        """Returns the offset after the last batch before `position`; the base offset if `position` is 0. Raises
        SegmentDamaged, OSError.
        """
        end = self.base_offset
        if position:
            reached, headers = self._indexed(position - 1, 1, index_interval)
            for at, view in headers:
                if at >= position:
                    break
                reached, end = at + view.size, view.next_offset
            self._check_reached(reached, position)
        return end

    def locate(
        self, offset: Offset, index_interval: int, *, rebuilds: bool = True
    ) -> Position | None:
        """Returns the position of the first batch whose last offset is at least `offset`; None if there is none.

        Raises SegmentDamaged: invalid batches precede it; OSError; IndexLost, unless `rebuilds`.
        """
        if self._tail_floor is not None and offset > self._tail_floor:
            at = bisect_left(self._tail_last_offsets, offset)
            return self._tail_positions[at] if at < len(self._tail_positions) else None
        hint = self._hints.get(offset)
        if hint is not None:
            return hint
        relative = offset - self.base_offset
        named = self._named_by_index(self.offset_index.ceiling_entry, relative, 0)
        if named is not None and named[1].base_offset <= offset:
            return named[0]
        reached, headers = self._indexed(relative, 0, index_interval, rebuilds=rebuilds)
        for position, view in headers:
            if view.last_offset >= offset:
                return position
            reached = position + view.size
        self._check_reached(reached, self.size)
        return None

    def boundary(self, limit: int, start: Position, index_interval: int) -> Boundary | None:
        """Returns the last boundary of at most `limit`, searching from the boundary `start`; None if it is `start`."""
        positions = self._tail_positions
        if positions and limit >= positions[0]:
            if limit >= self.size:
                return Boundary(self.size, self.next_offset) if self.size > start else None
            at = bisect_right(positions, limit) - 1
            if positions[at] <= start:
                return None
            if at > 0:
                return Boundary(positions[at], self._tail_last_offsets[at - 1] + 1)
        named = self._named_by_index(self.offset_index.floor, limit, 1)
        if named is not None and start < named[0] and named[0] + named[1].size > limit:
            return Boundary(named[0], named[1].base_offset)
        reached: Boundary | None = None
        begin, headers = self._indexed(limit, 1, index_interval)
        if begin < start:
            begin, headers = start, self._headers(start)
        for position, view in headers:
            if start < position == begin:
                reached = Boundary(position, view.base_offset)
            if position + view.size > limit:
                return reached
            reached = Boundary(position + view.size, view.next_offset)
        if reached is not None:
            self._check_reached(reached.position, self.size)
        return reached

    def hint(self, boundary: Boundary) -> None:
        """Remembers the boundary at which a reader of all batches below it continues."""
        if boundary.position < self.size:
            if len(self._hints) >= HINTS_MAX:
                self._hints.pop(next(iter(self._hints)))
            self._hints[boundary.offset] = boundary.position

    def _headers(self, start: int) -> Headers:
        return scan_headers(
            self.files, self.file, start, self.size, first_block_bytes=FIRST_BLOCK_BYTES
        )

    def _named_by_index(
        self, find: Callable[[int, int], Entry | None], key: int, field: int
    ) -> tuple[Position, BatchView] | None:
        """Returns the batch, and its position, to which the entry for `key` refers, if batches are large enough that
        most of them have an entry.

        None if batches are smaller, or the index is wrong: the caller must then scan to the batch.
        """
        index = self.offset_index
        try:
            if index.entries * LARGE_BATCH_BYTES > self.size:
                return None
            entry = find(key, field)
        except IndexDamaged:
            return None
        if entry is None or not 0 <= entry[1] < self.size:
            return None
        relative_offset, position = entry[0], Position(entry[1])
        view = header_at(self.files.pread(self.file, HEADER_BYTES, position), 0)
        if view is None or view.last_offset != self.base_offset + relative_offset:
            return None
        return (position, view) if is_plausible(view) else None

    def _indexed(self, key: int, field: int, interval: int, *, rebuilds: bool = True) -> _Place:
        """Returns the position by the last entry with `field` up to `key`, and the headers from there on."""
        for _ in range(2):
            found = self._by_index(key, field)
            if found is not None:
                return found
            if not rebuilds and self.size > REBUILT_AT_ONCE_BYTES:
                raise IndexLost(f"{self.path(INDEX_SUFFIX)} must be rebuilt")
            self._check_reached(self.rebuild(interval), self.size)
        raise SegmentDamaged(f"{self.path(INDEX_SUFFIX)} does not fit the log, new or old")

    def _by_index(self, key: int, field: int) -> _Place | None:
        """Returns a position from the index; None if it is damaged: the batch must end at the offset of the entry."""
        try:
            entry = self.offset_index.floor(key, field)
        except IndexDamaged:
            return None
        if entry is None:
            return Position(0), self._headers(0)
        relative_offset, position = entry[0], Position(entry[1])
        headers = self._headers(position) if 0 <= position < self.size else iter(())
        first = next(headers, None)
        if first is None or first[1].last_offset != self.base_offset + relative_offset:
            return None
        return position, chain((first,), headers)

    def _check_reached(self, position: int, end: int) -> None:
        if position != end:
            raise SegmentDamaged(
                f"{self.path(LOG_SUFFIX)}: no valid batch at position {position} of {end}"
            )
