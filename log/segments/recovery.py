"""Opening a partition's directory: which segments there are, and how far they can be trusted.

Source: Kafka's `LogLoader` and `LogSegment.recover`. Different from Kafka on purpose: only what lies above the recovery
point may be cut (a torn end). Damage below it raises `SegmentDamaged`, so that the replica is taken offline and
repaired from its peers instead of growing shorter (P17). Not implemented: splitting segments with overflowing offsets.

Batches fsynced after the last checkpoint of recovery points (5 s) cannot be told from others: nothing durable says
which it is, as a note with every fsync would cost a second one. Damage there is cut as a torn end is. A disk keeps
synced bytes, so it takes a bad block in the last seconds before a crash; other replicas, if there are any, have the
records then, and the log says how many whole batches went along.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import crc32c

from trimaran.log.batches.batch import CRC_START, HEADER_BYTES, MAGIC, OLD_CRC_START, BatchView
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.segments.index import IndexDamaged
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    INDEX_SUFFIXES,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    Segment,
    SegmentDamaged,
    file_name,
)
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset
from trimaran.wire.text import events

log = logging.getLogger(__name__)

# The bytes of a segment: ten milliseconds, if its batches are small.
READ_AT_ONCE_BYTES = 1 << 20
# The bytes of a snapshot of producers, each with 60 bytes: as long.
SNAPSHOT_BYTES_AT_ONCE = 256 << 10
CRC_BLOCK_BYTES = 1 << 20  # a batch is checked in pieces: its declared size is not allocated


def base_offset_of(name: str, suffix: str) -> Offset | None:
    """The offset in a file name like `00000000000000000042.log`, None when it is no such name."""
    stem = name.removesuffix(suffix)
    return Offset(int(stem)) if stem != name and len(stem) == 20 and stem.isdecimal() else None


def list_segments(directory: Path, files: Files) -> list[Segment]:
    """The segments, ascending, after finishing what a crash interrupted (deletions, swaps of the cleaner)."""
    names = set(files.list_directory(directory))
    _drop_unfinished(directory, names, files)
    _complete_swaps(directory, names, files)
    bases = sorted(b for n in names if (b := base_offset_of(n, LOG_SUFFIX)) is not None)
    for name in sorted(names):
        for suffix in INDEX_SUFFIXES:
            base = base_offset_of(name, suffix)
            if base is not None and file_name(base, LOG_SUFFIX) not in names:
                files.unlink(directory / name)
    return [
        Segment(directory, base, files, size=_size(directory, base, files), created=False)
        for base in bases
    ]


def _size(directory: Path, base_offset: Offset, files: Files) -> int:
    path = directory / file_name(base_offset, LOG_SUFFIX)
    status = files.status(path)
    if not status.is_regular:
        raise SegmentDamaged(f"{path} is not a regular file")
    return status.size


def _drop_unfinished(directory: Path, names: set[str], files: Files) -> None:
    """Removes what was deleted or not cleaned to its end. A swap that has not all its files is none (KAFKA-12520)."""
    cleaned = [b for n in names if (b := _swapped_base(n, CLEANED_SUFFIX)) is not None]
    unfinished = min(cleaned, default=None)
    for name in sorted(names):
        base = _swapped_base(name, SWAP_SUFFIX)
        is_begun = unfinished is not None and base is not None and base >= unfinished
        if is_begun or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
            with suppress(IsADirectoryError):  # another's
                files.unlink(directory / name)
            names.discard(name)


def _swapped_base(name: str, suffix: str) -> int | None:
    """The base offset in a name like `00000000000000000042.txnindex.swap`."""
    if not name.endswith(suffix):
        return None
    stem = name.removesuffix(suffix)
    found = (base_offset_of(stem, kind) for kind in SEGMENT_SUFFIXES)
    return next((base for base in found if base is not None), None)


def _complete_swaps(directory: Path, names: set[str], files: Files) -> None:
    """A `.log.swap` holds the cleaned content of all segments in its range: they go, it takes their place.

    The order of `Segments.replace`: the old segment of the same base loses its log first, the new one gets it last, its
    indexes before. So once the old log is gone, the indexes of that base are the new ones, or are replaced by them
    here.
    """
    for name in sorted(n for n in names if n.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        base = base_offset_of(name.removesuffix(SWAP_SUFFIX), LOG_SUFFIX)
        if base is None:
            continue
        file = files.open(directory / name, write=False)
        end = base + 1
        for _, view in scan_headers(files, file, 0, files.size(file)):
            end = view.next_offset
        first_old = base if file_name(base, LOG_SUFFIX) in names else base + 1
        for old in sorted(names):
            for suffix in SEGMENT_SUFFIXES:
                old_base = base_offset_of(old, suffix)
                if old_base is not None and first_old <= old_base < end:
                    files.unlink(directory / old)
                    names.discard(old)
        for suffix in SEGMENT_SUFFIXES:
            new = file_name(base, suffix)
            if new + SWAP_SUFFIX in names:
                files.rename(directory / (new + SWAP_SUFFIX), directory / new)
                names.discard(new + SWAP_SUFFIX)
                names.add(new)
    for name in sorted(n for n in names if n.endswith(SWAP_SUFFIX)):
        files.unlink(directory / name)
        names.discard(name)


def offsets_of(directory: Path, suffix: str, files: Files) -> list[Offset]:
    """Returns the offsets in the names of the files with this suffix, ascending."""
    offsets = (base_offset_of(name, suffix) for name in files.list_directory(directory))
    return sorted(offset for offset in offsets if offset is not None)


def list_snapshots(directory: Path, files: Files) -> list[Offset]:
    """Offsets of the producer snapshots, ascending."""
    return offsets_of(directory, SNAPSHOT_SUFFIX, files)


def lacks_index(names: Collection[str], base_offset: Offset) -> bool:
    """For a segment in a directory with these names: Kafka makes both when it opens the log, and so do we."""
    index, time_index = (
        file_name(base_offset, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    )
    return index not in names or time_index not in names


def takes_long(directory: Path, files: Files) -> bool:
    """Whether there is much to read before a log that was closed cleanly can be used: segments without an index, or
    batches behind the last snapshot of producers, or that is large. If the disk fails, opening the log reports it.
    """
    with suppress(OSError):
        names = set(files.list_directory(directory))
        bases = sorted(b for n in names if (b := base_offset_of(n, LOG_SUFFIX)) is not None)
        snapshots = (b for n in names if (b := base_offset_of(n, SNAPSHOT_SUFFIX)) is not None)
        known = max(snapshots, default=NO_OFFSET)
        newest = directory / file_name(known, SNAPSHOT_SUFFIX)
        if known >= 0 and files.status(newest).size > SNAPSHOT_BYTES_AT_ONCE:
            return True
        unread = [base for base in bases if lacks_index(names, base)]
        unread += [base for base in bases[-1:] if known <= base]
        paths = (directory / file_name(base, LOG_SUFFIX) for base in unread)
        return any(files.status(path).size > READ_AT_ONCE_BYTES for path in paths)
    return False


def recover_segment(
    segment: Segment,
    *,
    recovery_point: int,
    index_interval: int,
    note: Callable[[BatchView], None],
) -> bool:
    """Checks every batch that is not wholly below `recovery_point` and cuts the segment at the first invalid one.

    `note` is called with the header of each valid batch above the recovery point, in order.

    Returns:
        Whether something was cut, so that later segments cannot follow.

    Raises:
        SegmentDamaged: the first invalid byte is below `recovery_point`.
        OSError
    """
    files, file = segment.files, segment.file
    start, expected, epoch = _start_of_check(segment, recovery_point)
    valid_end = start
    is_damaged = False
    for position, view in scan_headers(files, file, start, segment.size):
        # An older epoch after a newer one was truncated once, and the truncation did not reach the disk.
        is_stale = 0 <= view.leader_epoch < epoch
        if is_stale or not segment.can_hold(view, expected):
            break
        if not crc_is_valid(files, file, position, view):
            is_damaged = True
            break
        epoch = view.leader_epoch
        valid_end = position + view.size
        expected = view.next_offset
        note(view)
    cut = valid_end < segment.size
    if cut and expected < recovery_point:
        raise SegmentDamaged(
            f"{segment.path(LOG_SUFFIX)}: invalid batch at position {valid_end}, offset {expected}, "
            f"in the part that was flushed (below {recovery_point})"
        )
    if cut:
        _tell_of_cut(segment, valid_end, expected, is_damaged=is_damaged)
        segment.truncate(valid_end, expected, index_interval)
    else:
        _forget_unflushed_index(segment, start)
        segment.load_tail(index_interval)
    segment.next_offset = expected
    return cut


def _tell_of_cut(segment: Segment, position: int, offset: Offset, *, is_damaged: bool) -> None:
    """A log that grows shorter is always reported. Zeros come from preallocation and power cuts, never from a write."""
    files, file = segment.files, segment.file
    if not any(files.pread(file, min(HEADER_BYTES, segment.size - position), position)):
        return
    whole = 0
    if is_damaged:
        behind = islice(scan_headers(files, file, position, segment.size), 1, None)
        whole = sum(crc_is_valid(files, file, *span) for span in behind)
    events.LOG_TRUNCATED.log(
        log,
        segment=segment.path(LOG_SUFFIX),
        bytes=segment.size - position,
        position=position,
        offset=offset,
        whole=whole,
    )


class _Start(NamedTuple):
    """The result of the check: the position of the first batch that reaches over the recovery point, its least offset,
    the epoch of the one before.
    """

    position: int
    offset: Offset
    epoch: LeaderEpoch


def _start_of_check(segment: Segment, recovery_point: int) -> _Start:
    if recovery_point <= segment.base_offset:
        return _Start(0, segment.base_offset, NO_LEADER_EPOCH)
    try:
        entry = segment.offset_index.floor(recovery_point - 1 - segment.base_offset)
        indexed = entry[1] if entry else 0
    except IndexDamaged:
        indexed = 0
    found = _skip_flushed(segment, indexed, recovery_point)
    if indexed and found.offset < recovery_point:
        # The index may be of another file: without it, from the beginning.
        found = _skip_flushed(segment, 0, recovery_point)
    return found


def _skip_flushed(segment: Segment, start: int, recovery_point: int) -> _Start:
    reached = _Start(start, segment.base_offset, NO_LEADER_EPOCH)
    for position, view in scan_headers(segment.files, segment.file, start, segment.size):
        if view.last_offset >= recovery_point or not segment.can_hold(view, reached.offset):
            break
        reached = _Start(position + view.size, view.next_offset, view.leader_epoch)
    return reached


def _forget_unflushed_index(segment: Segment, position: int) -> None:
    """Index entries above the checked part were never fsynced: they come again from the batches."""
    try:
        slot = segment.offset_index.ceiling(position, field=1)
        segment.offset_index.keep(slot)
        last = segment.offset_index.last
        limit = last[0] if last else -1
        segment.time_index.keep(segment.time_index.ceiling(limit + 1, field=1))
    except IndexDamaged:
        segment.offset_index.clear()
        segment.time_index.clear()


def crc_is_valid(files: Files, file: OpenFile, position: int, view: BatchView) -> bool:
    """Whether the batch at `position` with the header `view` has the CRC of its header."""
    crc = 0
    start, checksum = (
        (CRC_START, crc32c.crc32c) if view.magic == MAGIC else (OLD_CRC_START, zlib.crc32)
    )
    at, end = position + start, position + view.size
    while at < end:
        block = files.pread(file, min(CRC_BLOCK_BYTES, end - at), at)
        if not block:
            return False
        crc = checksum(block, crc)
        at += len(block)
    return crc == view.crc
