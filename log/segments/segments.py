"""The segments of one log in order: finding, adding and removing them.

Source: Kafka's `LogSegments`. Invariants: base offsets ascend, the last segment is the active one and always exists.
Methods raise OSError and `SegmentDamaged`; `PartitionLog` turns them into error codes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

from trimaran.log.disk.files import Files
from trimaran.log.segments.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    Segment,
    file_name,
)
from trimaran.log.segments.transaction_index import AbortedTransaction
from trimaran.log.steps import Steps
from trimaran.wire.identity import Offset

# The maximum number of old segments with open files, because handles are limited.
OPEN_SEGMENTS_MAX = 8


class Segments:
    """A list of at least one segment."""

    def __init__(self, directory: Path, segments: list[Segment], files: Files) -> None:
        self.directory = directory
        self.all = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        # Removed segments, and the time when `purge` first saw them.
        self.deleted_files: dict[Path, int | None] = {}
        self.removals = 0  # the number of segments removed, for any reason
        self._files = files
        self._sealed_bytes: int = sum(segment.size for segment in segments[:-1])
        self._recently_read: list[Segment] = []

    def __len__(self) -> int:
        return len(self.all)

    @property
    def size_bytes(self) -> int:
        return self._sealed_bytes + self.active.size

    def since(self, offset: Offset) -> Sequence[Segment]:
        """Returns the segments that hold `offset` or more."""
        return self.all[max(0, bisect_right(self.bases, offset) - 1) :]

    def holds(self, segment: Segment) -> bool:
        """Whether the segment is still part of the log."""
        at = bisect_right(self.bases, segment.base_offset) - 1
        return at >= 0 and self.all[at] is segment

    def add(self, base_offset: Offset, now_ms: int, preallocated_bytes: int = 0) -> None:
        """Creates a new active segment, including its files; the caller seals the previous one."""
        segment = Segment(self.directory, base_offset, self._files, size=0, created=True)
        segment.opened_ms = now_ms
        segment.create(preallocated_bytes)
        if self.all:
            self._sealed_bytes += self.active.size
            self.use(self.active)
        self.all.append(segment)
        self.bases.append(base_offset)
        self.active = segment

    def drop_first(self, count: int) -> None:
        for segment in self.all[:count]:
            self._sealed_bytes -= segment.size
            self._remove_files(segment)
        del self.all[:count], self.bases[:count]

    def drop_last(self) -> None:
        """Removes the active segment; the previous one becomes active. If none remains, the caller adds one."""
        segment = self.all.pop()
        self.bases.pop()
        if self.all:
            self.active = self.all[-1]
            self._sealed_bytes -= self.active.size
            if self.active in self._recently_read:
                self._recently_read.remove(self.active)
        self._remove_files(segment)

    def replace_active(self, base_offset: Offset, now_ms: int, preallocated_bytes: int = 0) -> None:
        """Replaces the empty active segment by one with another base."""
        self._remove_files(self.all.pop())
        self.bases.pop()
        if self.all:
            self.active = self.all[-1]
            self._sealed_bytes -= self.active.size
        self.add(base_offset, now_ms, preallocated_bytes)

    def replace(self, old: Sequence[Segment], size: int) -> bool:
        """Replaces `old` by a compacted segment of `size` bytes with `.cleaned` files; returns False if `old` has
        changed.

        After a crash at any point, recovery finds either all old segments or the new one: see `recovery.list_segments`.
        """
        start = bisect_right(self.bases, old[0].base_offset) - 1
        place = slice(start, start + len(old))
        if start < 0 or self.all[place] != list(old) or self.active in old:
            return False
        base_offset = old[0].base_offset
        self._rename_new(base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        for segment in reversed(old):
            self._sealed_bytes -= segment.size
            self._remove_files(segment)
        self._rename_new(base_offset, SWAP_SUFFIX, "")
        new = Segment(self.directory, base_offset, self._files, size=size, created=False)
        self._sealed_bytes += size
        self.all[place] = [new]
        self.bases[place] = [base_offset]
        return True

    def _rename_new(self, base_offset: Offset, suffix: str, target: str) -> None:
        for kind in SEGMENT_SUFFIXES:
            name = file_name(base_offset, kind)
            try:
                self._files.rename(
                    self.directory / (name + suffix), self.directory / (name + target)
                )
            except FileNotFoundError:
                continue  # there is no transaction index

    def release(self) -> None:
        for segment in self.all:
            segment.release()

    def has_no_aborts(self, start: Offset) -> bool:
        """Whether it is certain that no transaction was aborted from `start` on."""
        return all(segment.transaction_index.is_empty for segment in self.since(start))

    def aborted_transactions(self, start: Offset, end: Offset) -> Steps[list[AbortedTransaction]]:
        """Finds aborted transactions as `PartitionLog.find_aborted` does; also raises IndexDamaged."""
        found: list[AbortedTransaction] = []
        for segment in self.since(start):
            if segment.transaction_index.is_empty or segment.removed:
                continue
            yield 1
            here, complete = yield from segment.transaction_index.overlapping(start, end)
            found += here
            if complete:
                break
        return found

    def use(self, segment: Segment) -> None:
        """Limits the number of old segments with open files; those that were least recently read are closed first."""
        recent = self._recently_read
        if segment in recent:
            recent.remove(segment)
        recent.append(segment)
        if len(recent) > OPEN_SEGMENTS_MAX:
            recent.pop(0).release()

    def _remove_files(self, segment: Segment) -> None:
        """Renames the files, which is cheap; a thread of the caller unlinks them later. Readers keep their open
        files.
        """
        segment.removed = True
        self.removals += 1
        if segment in self._recently_read:
            self._recently_read.remove(segment)
        if not segment.exists:
            return
        segment.release()
        # The `.log` is renamed first: if a crash leaves it, its aborted transactions must be known.
        for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
            path = segment.path(suffix)
            target = path.with_name(path.name + DELETED_SUFFIX)
            try:
                self._files.rename(path, target)
            except FileNotFoundError:
                continue
            self.deleted_files[target] = None

    def purge(self, now_ms: int | None = None, delay_ms: int = 0) -> None:
        """Unlinks the files of removed segments; if the time is given, only those first seen at least `delay_ms` ago.
        May run in a thread.
        """
        for path in due(self.deleted_files, now_ms, delay_ms):
            self._files.unlink(path)
            self.deleted_files.pop(path, None)


def due(deleted: dict[Path, int | None], now_ms: int | None, delay_ms: int) -> list[Path]:
    """Returns the segments to unlink; records the time for those seen for the first time."""
    if now_ms is None:
        return list(deleted)
    for path, since_ms in list(deleted.items()):
        if since_ms is None:
            deleted[path] = now_ms
    return [
        path for path, since_ms in list(deleted.items()) if now_ms - (since_ms or 0) >= delay_ms
    ]
