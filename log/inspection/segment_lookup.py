"""Finds positions in a segment by offset and by time, from its indexes, without trusting them.

Each index entry that is used is compared with the batch at its position: its offset, its time and its CRC. If the index
of offsets is missing, or an entry is wrong, an index of all batches is built in memory; nothing is written. Therefore
damage makes a search slow, but its result is still correct. An index file is searched, never read as a whole: for a
segment of 1 GiB it has 2 MiB, or more if its zero-filled tail was preallocated.

One property of a time entry is not checked, because this would require reading all earlier batches: that its time is
the largest up to its batch. If an index lacks a larger time of an earlier batch, a search may skip that batch, as in
Kafka. Brokers write no such index: after a restart or truncation they determine the largest time.

Source: Kafka's `OffsetIndex`, `TimeIndex` and `LogSegment.findOffsetByTimestamp`.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import HEADER_BYTES, MAGIC, BatchView, has_valid_crc
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.inspection.reader import BatchStart, SegmentFile, scan_batches
from trimaran.log.segments.index import OffsetIndex, TimeIndex, ascends
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.log.segments.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from trimaran.wire.identity import Offset, Position

BLOCK_ENTRIES = 64  # entries of one read, which costs no more than one entry
# Bytes of a batch whose CRC is checked before its index entry is used; of a larger one, the header is compared.
CHECKED_BYTES = 128 << 10
APART_BYTES = 1 << 16  # bytes between two entries of an index in memory: 16,384 entries for 1 GiB


class IndexedBatch(NamedTuple):
    """A batch of the index in memory."""

    last_offset: Offset
    position: Position


class Unusable(Exception):
    """An index is missing or empty, or an entry does not match its batch."""


class SegmentLookup:
    """Searches one segment, of which the first `size` bytes count. Methods raise OSError."""

    def __init__(self, segment: SegmentFile, files: Files) -> None:
        self._segment = segment
        self._files = files

    def at_offset(self, offset: Offset) -> Position:
        """Returns the position of a batch before which all offsets are lower than `offset`, in the worst case 0."""
        if offset <= self._segment.base_offset:
            return Position(0)
        try:
            return self._at_indexed(offset)
        except Unusable:
            slot = bisect_right(self._rebuilt, offset, key=lambda entry: entry.last_offset)
            return self._rebuilt[slot - 1].position if slot else Position(0)

    def end_of(self, offset: Offset) -> Position:
        """Returns the position after a batch that ends at `offset` or later; the segment's size if none is known."""
        relative = offset - self._segment.base_offset
        try:
            slot = self._offsets.slot(relative, 0)
            if slot < self._offsets.count:
                entry = self._offsets.entry(slot)
                header = self._checked(*entry)
                if entry[0] >= relative:
                    return Position(entry[1] + header.size)
        except Unusable:
            pass
        return Position(self._segment.size)

    def before_position(self, position: int) -> Position:
        """Returns the position of a batch, at most `position`; near to it, unless the index lacks entries."""
        try:
            slot = self._offsets.slot(position + 1, 1)
            if not slot:
                return Position(0)
            relative, found = self._offsets.entry(slot - 1)
            self._checked(relative, found)
            if found > position:
                raise Unusable
        except Unusable:
            slot = bisect_right(self._rebuilt, position, key=lambda entry: entry.position)
            return self._rebuilt[slot - 1].position if slot else Position(0)
        return Position(found)

    def at_time(self, timestamp_ms: int) -> Position:
        """Returns the position of a batch before which all records are earlier than `timestamp_ms`; the segment's size
        if all are.

        Without a usable index it is near the beginning: a reader compares times of batches anyway.
        """
        try:
            start = self._at_indexed_time(timestamp_ms)
        except Unusable:
            start = Position(0)
        end = start
        for position, header in self._headers(start, min(start + APART_BYTES, self._segment.size)):
            if header.magic < MAGIC or header.max_timestamp >= timestamp_ms:
                return position
            end = Position(position + header.size)
        return end

    def start_of(self, position: Position) -> BatchStart | None:
        """Returns the batch at a position; None if there is none."""
        for at, header in self._headers(position, self._segment.size):
            return BatchStart(at, header.base_offset, header.crc)
        return None

    def _at_indexed(self, offset: Offset) -> Position:
        """Returns the last indexed batch that ends at or below the offset; 0 if the first one is above it."""
        relative = offset - self._segment.base_offset
        slot = self._offsets.slot(relative + 1, 0)
        if not slot:
            return Position(0)
        entry = self._offsets.entry(slot - 1)
        self._checked(*entry)
        if entry[0] > relative:
            raise Unusable
        return Position(entry[1])

    def _at_indexed_time(self, timestamp_ms: int) -> Position:
        slot = self._times.slot(timestamp_ms, 0)
        if not slot:
            return Position(0)
        time, relative = self._times.entry(slot - 1)
        if time >= timestamp_ms or not self._times.ascends_at(slot - 1):
            raise Unusable
        offset = Offset(self._segment.base_offset + relative)
        for position, header in self._headers(self._at_indexed(offset), self._segment.size):
            if header.last_offset < offset:
                continue
            if header.base_offset > offset or header.max_timestamp != time or header.magic < MAGIC:
                break
            return position
        raise Unusable

    def _checked(self, relative: int, position: int) -> BatchView:
        """Returns the header of the batch at an entry's position. Raises Unusable."""
        size = self._segment.size
        if relative < 0 or not 0 <= position < size:
            raise Unusable
        header = next((view for _, view in self._headers(position, size)), None)
        if header is None or header.last_offset != self._segment.base_offset + relative:
            raise Unusable
        if header.size <= CHECKED_BYTES:
            batch = read_batch(self._files, self._file, position, header.size)
            if batch is None or not has_valid_crc(batch):
                raise Unusable
        return header

    def _headers(self, start: int, end: int) -> Iterator[tuple[Position, BatchView]]:
        return scan_headers(self._files, self._file, start, end, first_block_bytes=HEADER_BYTES)

    @cached_property
    def _file(self) -> OpenFile:
        return self._files.open(Path(self._segment.path), write=False)

    @cached_property
    def _offsets(self) -> _Stored:
        path = Path(self._segment.path).with_suffix(INDEX_SUFFIX)
        return _Stored(path, OffsetIndex.layout, self._files)

    @cached_property
    def _times(self) -> _Stored:
        path = Path(self._segment.path).with_suffix(TIME_INDEX_SUFFIX)
        return _Stored(path, TimeIndex.layout, self._files)

    @cached_property
    def _rebuilt(self) -> list[IndexedBatch]:
        """The index in memory: a batch for each 64 KiB, up to the first damage."""
        found: list[IndexedBatch] = []
        segment = self._segment
        for position, batch in scan_batches(
            segment.path, 0, segment.size, files=self._files, check_crc=False
        ):
            if found and batch.base_offset <= found[-1].last_offset:
                break  # a stale block of the disk
            if not found or position - found[-1].position >= APART_BYTES:
                found.append(IndexedBatch(batch.last_offset, Position(position)))
        return found


class _Stored:
    """The entries of an index file, without the zeros at its end. Methods raise Unusable."""

    def __init__(self, path: Path, layout: struct.Struct, files: Files) -> None:
        self._path = path
        self._layout = layout
        self._files = files
        self._blocks: dict[int, bytes] = {}

    @cached_property
    def _file(self) -> OpenFile:
        try:
            return self._files.open(self._path, write=False)
        except OSError:
            raise Unusable from None

    @cached_property
    def count(self) -> int:
        stored = self._files.size(self._file) // self._layout.size
        found = bisect_left(range(stored), True, key=lambda slot: self.entry(slot) == (0, 0))
        if not found:
            raise Unusable
        return found

    def slot(self, key: int, field: int) -> int:
        """Returns the first slot whose field is at least `key`, if they ascend; `count` if there is none."""
        return bisect_left(range(self.count), key, key=lambda slot: self.entry(slot)[field])

    def entry(self, slot: int) -> tuple[int, int]:
        block, place = divmod(slot, BLOCK_ENTRIES)
        try:
            first, second = self._layout.unpack_from(self._block(block), place * self._layout.size)
        except struct.error:
            raise Unusable from None  # the file became shorter
        return first, second

    def ascends_at(self, slot: int) -> bool:
        """Whether the entries around a slot ascend."""
        block = slot // BLOCK_ENTRIES
        size = min(BLOCK_ENTRIES, self.count - block * BLOCK_ENTRIES) * self._layout.size
        return ascends(self._block(block)[:size], self._layout)

    def _block(self, block: int) -> bytes:
        if block not in self._blocks:
            size = BLOCK_ENTRIES * self._layout.size
            self._blocks[block] = self._files.pread(self._file, size, block * size)
        return self._blocks[block]
