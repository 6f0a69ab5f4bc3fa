"""The sparse indexes of a segment: offset → position and timestamp → offset, in Kafka's file layouts.

Source: Kafka's `OffsetIndex` and `TimeIndex`.

```
.index      entry = int32 relative offset, int32 position            8 bytes, ascending in both
.timeindex  entry = int64 timestamp, int32 relative offset          12 bytes, ascending in both
```

An offset entry names the *last* offset of the batch that begins at the position, so every use of an entry can be
verified against the batch header there. A time entry means: no timestamp up to and including that offset is larger.
Kafka preallocates the files with zeros and truncates them at roll; we append, and truncate existing zeros before
writing. New entries are kept in memory and written in groups.
"""

from __future__ import annotations

import logging
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import lt
from pathlib import Path

from trimaran.log.disk.atomic_file import DAMAGED_SUFFIX
from trimaran.log.disk.files import Files, OpenFile, is_of_name
from trimaran.log.disk.named_file import NamedFile
from trimaran.wire.text import events

log = logging.getLogger(__name__)

# 64 offset entries: at Kafka's interval of 4 KiB, at most one write per 256 KiB of log.
PENDING_BYTES_MAX = 512
BLOCK_ENTRIES = 32  # a search reads them in one call, which costs no more than one entry


Entry = tuple[int, int]


class IndexDamaged(Exception):
    """An index file is missing or invalid: the segment rebuilds it from its batches."""


class IndexLost(Exception):
    """An index is damaged, and its segment is too large to be read in one step: the caller works without the index."""


def damaged(what: str) -> IndexDamaged:
    """Returns the error for an existing but invalid file, and logs the error; a missing file is rebuilt silently."""
    events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=what)
    return IndexDamaged(what)


def open_index(path: Path, files: Files, open_file: Callable[[], OpenFile]) -> OpenFile | None:
    """Returns the result of `open_file`; None if the file does not exist.

    Raises:
        IndexDamaged: `path` is not a regular file, and was renamed.
        OSError: the disk failed.
    """
    try:
        return open_file()
    except FileNotFoundError:
        return None
    except OSError as error:
        if not is_of_name(error):
            raise
        files.rename(path, path.with_name(path.name + DAMAGED_SUFFIX))
        raise damaged(f"{path} cannot be read: {error}") from error


class IndexFile:
    """A file of fixed-size entries with ascending keys; it is opened when first needed.

    `entries` counts those in the file and the pending ones. Keys are the tuples that `unpack` returns.
    """

    layout: struct.Struct

    def __init__(self, path: Path, files: Files, *, created: bool) -> None:
        """Does not open the file. `created` means that the caller has just created the segment, so there is no file to
        read.
        """
        self.path = path
        self._files = files
        self._file = NamedFile(path, files)
        self._pending = bytearray()
        self._written = 0  # entries in the file
        self._entries = 0  # entries including pending ones
        self._cut = False  # the file has more entries, which are removed before the next write
        self._created = created
        self._loaded = created
        self._first = (0, 0)
        self._last: tuple[int, int] | None = None
        self.write_behind = False  # all entries stay in memory until `write_pending`

    @property
    def entries(self) -> int:
        if not self._loaded:
            self._load()
        return self._entries

    @property
    def last(self) -> tuple[int, int] | None:
        if not self._loaded:
            self._load()
        return self._last

    def entry(self, slot: int) -> tuple[int, int]:
        size = self.layout.size
        if slot >= self._written:
            first, second = self.layout.unpack_from(self._pending, (slot - self._written) * size)
        else:
            first, second = self.layout.unpack(self._stored(slot, 1))
        return first, second

    def append(self, first: int, second: int) -> None:
        if not self._loaded:
            self._load()
        entry = (first, second)
        if self._last is None:
            self._first = entry
        self._last = entry
        self._entries += 1
        pending = self._pending
        pending += self.layout.pack(first, second)
        if len(pending) >= PENDING_BYTES_MAX and not self.write_behind:
            self.write_pending()

    def clear(self) -> None:
        """Removes all entries, regardless of the content of the file."""
        self._pending = bytearray()
        self._written = self._entries = 0
        self._cut = False
        self._created = self._loaded = True
        self._file.close()
        self._last = None

    def write_pending(self) -> None:
        """Writes the pending entries (and creates the file, because Kafka expects one). Raises OSError."""
        if not self._loaded:
            return
        file = self._opened()
        if self._cut:
            self._files.truncate(file, self._written * self.layout.size)
            self._cut = False
        if self._pending:
            self._files.pwrite(file, self._pending, self._written * self.layout.size)
            self._written = self._entries
            self._pending = bytearray()

    def keep(self, entries: int) -> None:
        """Removes all entries from slot `entries` on."""
        self._load()
        if entries >= self._entries:
            return
        self._entries = entries
        if entries >= self._written:
            del self._pending[(entries - self._written) * self.layout.size :]
        else:
            self._pending = bytearray()
            self._written = entries
            self._files.truncate(self._opened(), entries * self.layout.size)
            self._cut = False
        self._last = self.entry(entries - 1) if entries else None

    def set_aside(self, entries: int) -> None:
        """Removes entries as `keep` does, but leaves the file unchanged until the next write: opening a log must not
        write.
        """
        self._load()
        if entries < self._written and not self._pending:
            self._written, self._entries, self._cut = entries, entries, True
            self._last = self.entry(entries - 1) if entries else None

    def floor(self, key: int, field: int = 0) -> Entry | None:
        """Returns the last entry whose `field` (0 or 1) is at most `key`; None if there is none."""
        self._load()
        last = self._last
        if last is None or last[field] <= key:
            return last
        return self._search(key + 1, field)[1]

    def ceiling(self, key: int, field: int = 0) -> int:
        """Returns the first slot whose `field` is at least `key`; `entries` if there is none."""
        self._load()
        return self._search(key, field)[0]

    def ceiling_entry(self, key: int, field: int = 0) -> Entry | None:
        """Returns the first entry whose `field` is at least `key`; None if there is none."""
        self._load()
        return self._search(key, field)[2]

    def _search(self, key: int, field: int) -> tuple[int, Entry | None, Entry | None]:
        """Returns the first slot whose `field` is at least `key`, the previous entry and its own; reads one block of
        the file at a time.

        Entries are nearly linear, so the first block is usually the right one; every second step halves the range, for
        any entries.
        """
        before = found = None
        if self._pending:
            below, before, found = self._below(self._pending, key, field)
            if below:
                return self._written + below, before, found
        low, high = 0, self._written
        halve = False
        while low < high:
            at = (low + high) // 2 if halve else self._guess(key, field)
            start = max(low, min(at, high) - BLOCK_ENTRIES // 2)
            end = min(high, start + BLOCK_ENTRIES)
            below, entry, ceiling = self._below(self._stored(start, end - start), key, field)
            if ceiling is not None:
                found = ceiling
            if below:
                low, before = start + below, entry
                if low < end:
                    break
            else:
                high = start
            halve = not halve
        return low, before, found

    def _below(
        self, data: bytes | bytearray, key: int, field: int
    ) -> tuple[int, Entry | None, Entry | None]:
        """Returns the number of these entries with a `field` below `key`, the last of them, and the next entry."""
        layout = self.layout
        below = bisect_left(column(data, layout, field), key)
        at = below * layout.size
        before = layout.unpack_from(data, at - layout.size) if below else None
        found = layout.unpack_from(data, at) if at < len(data) else None
        return below, before, found

    def _guess(self, key: int, field: int) -> int:
        """Returns the slot that would have `key` if entries were linear between the first and the last."""
        assert self._last is not None
        first, last = self._first[field], self._last[field]
        return (key - first) * (self._entries - 1) // max(1, last - first)

    def reopen_for_use(self) -> OpenFile:
        """Returns the file to fsync; creates it if necessary."""
        self.write_pending()
        return self._opened()

    def release(self) -> None:
        """Closes the file until it is needed again; pending entries stay in memory."""
        self._file.close()

    def _opened(self) -> OpenFile:
        file = self._file.get(create=True)
        if self._created:
            self._files.truncate(file, 0)  # truncates a leftover file with the same name
            self._created = False
        return file

    def _load(self) -> None:
        """Counts the file's entries, and checks the first and the last, once. Raises IndexDamaged.

        The order of the other entries is not checked: each use compares an entry with its batch.
        """
        if self._loaded:
            return
        file = open_index(self.path, self._files, self._file.get)
        if file is None:
            raise IndexDamaged(f"{self.path} is missing")
        stored = self._files.size(file) // self.layout.size  # the last entry may be incomplete
        none = bytes(self.layout.size)
        entries = bisect_left(range(stored), True, key=lambda slot: self._stored(slot, 1) == none)
        first = self.layout.unpack(self._stored(0, 1)) if entries else (0, 0)
        last = self.layout.unpack(self._stored(entries - 1, 1)) if entries else (0, 0)
        for begin, end in zip(first, last, strict=True):
            if begin < 0 or end - begin < entries - 1:
                raise damaged(f"{self.path}: entries do not ascend")
        self._written, self._entries, self._cut = entries, entries, entries < stored
        self._loaded = True
        self._first, self._last = (first[0], first[1]), (last[0], last[1]) if entries else None

    def _stored(self, slot: int, count: int) -> bytes:
        size = self.layout.size
        return self._files.pread(self._opened(), count * size, slot * size)


def column(data: bytes | bytearray, layout: struct.Struct, field: int) -> Sequence[int]:
    """Returns the values of the field in all entries. A segment of 1 GiB has 262,144 of them."""
    if layout is not OffsetIndex.layout:
        return [entry[field] for entry in layout.iter_unpack(data)]
    flat = array("i", data)
    if sys.byteorder == "little":
        flat.byteswap()
    return flat[field::2]


def ascends(data: bytes, layout: struct.Struct) -> bool:
    """Whether both fields of all entries ascend strictly and none is negative."""
    columns = column(data, layout, 0), column(data, layout, 1)
    return all(
        not values or (values[0] >= 0 and all(map(lt, values, values[1:]))) for values in columns
    )


class OffsetIndex(IndexFile):
    """The offset index. Entries are (relative last offset of a batch, position of the batch)."""

    layout = struct.Struct(">ii")


OFFSET_ENTRY_BYTES = OffsetIndex.layout.size


class TimeIndex(IndexFile):
    """The time index. Entries are (largest timestamp so far, relative last offset of its batch)."""

    layout = struct.Struct(">qi")


TIME_ENTRY_BYTES = TimeIndex.layout.size
