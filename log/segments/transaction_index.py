"""The aborted transactions whose markers lie in one segment, which a read_committed consumer skips.

Source: Kafka's `TransactionIndex`, and the schema `AbortedTxn` of Kafka 4.4 (KIP-98).

```
.txnindex = { entry }, ascending by last offset; no file without aborts
entry     = int16 version (0), int64 producer id, int64 first offset, int64 last offset (of the marker),
            int64 last stable offset after the marker: transactions that end later began above it          34 bytes
```

An entry is in the segment of its marker; its first offset may lie in an earlier segment. No handle is kept open: most
segments have no such file, and aborts are rare.

While a transaction stays open for long, last stable offsets stay equal, so an abort after the offset of a reader does
not prove that later transactions began too late to matter. Therefore the least first offset of each group of entries is
kept in memory.
"""

from __future__ import annotations

import logging
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.segments.index import IndexDamaged, open_index
from trimaran.log.steps import Steps
from trimaran.wire.identity import NO_OFFSET, Offset, ProducerId
from trimaran.wire.text import events

log = logging.getLogger(__name__)

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
BLOCK_ENTRIES = 512  # 17 KiB per read: one abort per thousand offsets is unusually many.
# The least first offset of each group of entries is in memory: 24 bytes of memory, and 100 µs to read the group.
GROUP_ENTRIES = 64
ENTRIES_PER_UNIT = 3


class AbortedTransaction(NamedTuple):
    """An aborted transaction. `last_stable_offset` is the first offset of the earliest transaction that was still open
    at its end, or the offset after the marker.
    """

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class _Groups:
    """The groups of `GROUP_ENTRIES` entries: the least first offset, the last marker, and the largest last stable
    offset of each.
    """

    __slots__ = ("count", "least", "markers", "stable")

    def __init__(self) -> None:
        self.least, self.markers, self.stable = array("q"), array("q"), array("q")
        self.count = 0

    def add(self, entry: AbortedTransaction) -> None:
        if self.count % GROUP_ENTRIES == 0:
            self.least.append(entry.first_offset)
            self.markers.append(entry.last_offset)
            self.stable.append(entry.last_stable_offset)
        else:
            self.least[-1] = min(self.least[-1], entry.first_offset)
            self.markers[-1] = entry.last_offset
            self.stable[-1] = max(self.stable[-1], entry.last_stable_offset)
        self.count += 1


class TransactionIndex:
    """The index of one segment. Methods raise OSError, and `IndexDamaged` if the file is invalid."""

    __slots__ = ("_count", "_files", "_groups", "_last_offset", "changed", "lacks_entries", "path")

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        # whether the file has changed since this object was created: it is synced before its offsets count as flushed
        self.changed = False
        # A damaged part was removed: the log must be read from its start, even if there are snapshots.
        self.lacks_entries = False
        self._files = files
        self._count: int | None = None  # None: the file was not read yet
        self._last_offset = NO_OFFSET
        self._groups: _Groups | None = None  # None: the file was not searched yet

    @property
    def is_empty(self) -> bool:
        """Whether the index is known to have no entries."""
        return self._count == 0

    @property
    def exists(self) -> bool:
        return self._load() > 0

    @property
    def last_offset(self) -> Offset:
        """Returns the last offset of the last entry; -1 if there is none."""
        self._load()
        return self._last_offset

    def file(self) -> OpenFile:
        """Returns the open file; creates it if necessary."""
        return self._files.open(self.path, create=True)

    def append(self, entry: AbortedTransaction) -> bool:
        """Adds an entry unless it exists (a replay must not add entries twice); returns whether the file is new."""
        count = self._load()
        if entry.last_offset <= self._last_offset:
            return False
        self.changed = True
        self._files.pwrite(self.file(), _ENTRY.pack(0, *entry), count * ENTRY_BYTES)
        self._count = count + 1
        self._last_offset = entry.last_offset
        if self._groups is not None:
            self._groups.add(entry)
        return count == 0

    def overlapping(
        self, start: Offset, end: Offset
    ) -> Steps[tuple[list[AbortedTransaction], bool]]:
        """Finds the entries that overlap [start, end), and whether later segments cannot have more.

        Runs in steps, between which nothing may be truncated.
        """
        found: list[AbortedTransaction] = []
        groups = yield from self._grouped()
        for group in range(bisect_left(groups.markers, start), len(groups.markers)):
            may_end = groups.stable[group] >= end
            if groups.least[group] >= end and not may_end:
                continue
            yield GROUP_ENTRIES // ENTRIES_PER_UNIT
            for entry in self._entries_from(group * GROUP_ENTRIES, GROUP_ENTRIES):
                if entry.last_offset < start:
                    continue
                if entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found, True
        return found, False

    def _grouped(self) -> Steps[_Groups]:
        """Reads all entries once."""
        if self._groups is not None:
            return self._groups
        groups = _Groups()
        while groups.count < self._load():
            before = groups.count
            for entry in self._entries_from(before, BLOCK_ENTRIES):
                groups.add(entry)
            yield (groups.count - before) // ENTRIES_PER_UNIT
        if self._groups is None:
            self._groups = groups
        return self._groups

    def entries(self) -> list[AbortedTransaction]:
        return list(self._entries_from(0))

    def truncate_to(self, offset: Offset) -> None:
        """Removes the entries of markers at `offset` and above, and an incomplete last one.

        A killed process may already have removed them without syncing, so the file must be synced even if there is
        nothing to remove.
        """
        try:
            file = self._existing()
        except IndexDamaged:
            return
        if file is None:
            return
        self.changed = True
        self._count = self._files.size(file) // ENTRY_BYTES
        try:
            slot = self._first_reaching(offset)
        except IndexDamaged:
            self.keep_sound()
            slot = self._first_reaching(offset)
        self._cut(slot)

    def keep_sound(self) -> None:
        """Removes all entries from the first damaged one on; the caller adds the missing entries by a replay."""
        self._count = self._size() // ENTRY_BYTES
        sound = 0
        try:
            for _ in self._entries_from(0):
                sound += 1
        except IndexDamaged as damage:
            self.lacks_entries = True
            events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=damage)
        self._cut(sound)

    def _cut(self, count: int) -> None:
        if self._size():
            self.changed = True
            self._files.truncate(self.file(), count * ENTRY_BYTES)
        self._count = count
        self._groups = None
        self._last_offset = self._entry(count - 1).last_offset if count else NO_OFFSET

    def _load(self) -> int:
        if self._count is None:
            size = self._size()
            if size % ENTRY_BYTES:
                raise IndexDamaged(f"{self.path} has {size} bytes, no whole number of entries")
            self._count = size // ENTRY_BYTES
            self._last_offset = self._entry(self._count - 1).last_offset if size else NO_OFFSET
        return self._count

    def _size(self) -> int:
        file = self._existing()
        return 0 if file is None else self._files.size(file)

    def _existing(self) -> OpenFile | None:
        """Returns the file, if it exists. Raises IndexDamaged: the file is invalid and was renamed."""
        open_file = partial(self._files.open, self.path, write=False)
        try:
            return open_index(self.path, self._files, open_file)
        except IndexDamaged:
            self.lacks_entries = True
            raise

    def _entry(self, slot: int) -> AbortedTransaction:
        return next(self._entries_from(slot, 1))

    def _first_reaching(self, offset: Offset) -> int:
        """Returns the slot of the first entry whose marker is at `offset` or above."""
        low, high = 0, self._load()
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle).last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _entries_from(
        self, slot: int, entries_max: int | None = None
    ) -> Iterator[AbortedTransaction]:
        count = self._load()
        if entries_max is not None:
            count = min(count, slot + entries_max)
        if slot >= count:
            return
        file = self._files.open(self.path, write=False)
        before = -1
        for first in range(slot, count, BLOCK_ENTRIES):
            size = min(BLOCK_ENTRIES, count - first) * ENTRY_BYTES
            data = self._files.pread(file, size, first * ENTRY_BYTES)
            if len(data) < size:
                raise IndexDamaged(f"{self.path} has fewer than {count} entries")
            for version, *fields in _ENTRY.iter_unpack(data):
                entry = AbortedTransaction(*fields)
                if version != 0 or not 0 <= entry.first_offset < entry.last_offset > before:
                    raise IndexDamaged(
                        f"{self.path}: no entry of version 0 after {before}: {entry}"
                    )
                before = entry.last_offset
                yield entry
