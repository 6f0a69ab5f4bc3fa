"""Checks when a partition's directory is opened: they determine the segments, and the offset up to which these are
valid.

Source: Kafka's `LogLoader` and `LogSegment.recover`. Intentional difference: only batches above the
recovery point may be cut (a torn end). Damage below it raises `SegmentDamaged`, so that the replica is taken offline
and repaired from its peers instead of being shortened (P17). Not implemented: splitting segments with overflowing
offsets.

Batches fsynced after the last checkpoint of recovery points (5 s) cannot be distinguished from unsynced ones: recording
each fsync durably would cost a second one. Damage there is cut like a torn end. A disk keeps synced bytes, so this
requires a bad block written in the last seconds before a crash. Other replicas, if any, then have the records, and a
log line reports the number of whole batches cut.
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
from trimaran.wire.identity import NO_LEADER_EPOCH, NO_OFFSET, LeaderEpoch, Offset, Position
from trimaran.wire.text import events

log = logging.getLogger(__name__)

# The bytes of a segment that take ten milliseconds to read if its batches are small.
READ_AT_ONCE_BYTES = 1 << 20
# The bytes of a producer snapshot, 60 for each producer, that take the same time.
SNAPSHOT_BYTES_AT_ONCE = 256 << 10
CRC_BLOCK_BYTES = 1 << 20  # batches are checked in pieces: no declared size is allocated


def base_offset_of(name: str, suffix: str) -> Offset | None:
    """Returns the offset in a file name like `00000000000000000042.log`; None for other names."""
    stem = name.removesuffix(suffix)
    return Offset(int(stem)) if stem != name and len(stem) == 20 and stem.isdecimal() else None


def list_segments(directory: Path, files: Files) -> list[Segment]:
    """Returns the segments in ascending order, after completing operations that a crash interrupted (deletions, swaps
    of the cleaner).
    """
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
    """Removes files of deletions and of incomplete cleanings. A swap without all its files is invalid (KAFKA-12520)."""
    cleaned = [b for n in names if (b := _swapped_base(n, CLEANED_SUFFIX)) is not None]
    unfinished = min(cleaned, default=None)
    for name in sorted(names):
        base = _swapped_base(name, SWAP_SUFFIX)
        is_begun = unfinished is not None and base is not None and base >= unfinished
        if is_begun or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
            with suppress(IsADirectoryError):  # the directory was not created by us
                files.unlink(directory / name)
            names.discard(name)


def _swapped_base(name: str, suffix: str) -> Offset | None:
    """Returns the base offset in a name like `00000000000000000042.txnindex.swap`."""
    if not name.endswith(suffix):
        return None
    stem = name.removesuffix(suffix)
    found = (base_offset_of(stem, kind) for kind in SEGMENT_SUFFIXES)
    return next((base for base in found if base is not None), None)


def _complete_swaps(directory: Path, names: set[str], files: Files) -> None:
    """Completes swaps: a `.log.swap` holds the cleaned content of all segments in its range, and replaces them.

    `Segments.replace` removes the log of the old segment with the same base first, then adds the new indexes, and the
    new log last. Once the old log is gone, the indexes of that base are therefore the new ones, or are replaced by them
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
    """Returns the offsets of the producer snapshots, ascending."""
    return offsets_of(directory, SNAPSHOT_SUFFIX, files)


def lacks_index(names: Collection[str], base_offset: Offset) -> bool:
    """Whether a segment in a directory with these names lacks an index: like Kafka, we create both when a log is
    opened.
    """
    index, time_index = (
        file_name(base_offset, suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)
    )
    return index not in names or time_index not in names


def takes_long(directory: Path, files: Files) -> bool:
    """Whether many bytes must be read before a cleanly closed log can be used: segments without an index, batches after
    the last producer snapshot, or a large snapshot. If the disk fails, opening the log reports it.
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
    recovery_point: Offset,
    index_interval: int,
    note: Callable[[BatchView], None],
) -> bool:
    """Checks every batch that extends above `recovery_point`, and truncates the segment at the first invalid batch.

    `note` is called with the header of each valid batch above the recovery point, in order.

    Returns:
        Whether bytes were cut, so that later segments cannot follow.

    Raises:
        SegmentDamaged: the first invalid byte is below `recovery_point`.
        OSError
    """
    files, file = segment.files, segment.file
    start, expected, epoch = _start_of_check(segment, recovery_point)
    valid_end = start
    is_damaged = False
    for position, view in scan_headers(files, file, start, segment.size):
        # An older epoch after a newer one shows a truncation that did not reach the disk.
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
        _log_cut(segment, valid_end, expected, is_damaged=is_damaged)
        segment.truncate(valid_end, expected, index_interval)
    else:
        _forget_unflushed_index(segment, start)
        segment.load_tail(index_interval)
    segment.next_offset = expected
    return cut


def _log_cut(segment: Segment, position: Position, offset: Offset, *, is_damaged: bool) -> None:
    """Logs the cut: every loss of records is reported. Zeros come from preallocation and power failures, never from a
    write.
    """
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
    """The start of the check: the position of the first batch that extends above the recovery point, its least offset,
    and the epoch of the previous batch.
    """

    position: Position
    offset: Offset
    epoch: LeaderEpoch


def _start_of_check(segment: Segment, recovery_point: Offset) -> _Start:
    if recovery_point <= segment.base_offset:
        return _Start(Position(0), segment.base_offset, NO_LEADER_EPOCH)
    try:
        entry = segment.offset_index.floor(recovery_point - 1 - segment.base_offset)
        indexed = entry[1] if entry else 0
    except IndexDamaged:
        indexed = 0
    found = _skip_flushed(segment, indexed, recovery_point)
    if indexed and found.offset < recovery_point:
        # The index may belong to another file; without it, the check begins at the first batch.
        found = _skip_flushed(segment, 0, recovery_point)
    return found


def _skip_flushed(segment: Segment, start: int, recovery_point: Offset) -> _Start:
    reached = _Start(Position(start), segment.base_offset, NO_LEADER_EPOCH)
    for position, view in scan_headers(segment.files, segment.file, start, segment.size):
        if view.last_offset >= recovery_point or not segment.can_hold(view, reached.offset):
            break
        reached = _Start(position + view.size, view.next_offset, view.leader_epoch)
    return reached


def _forget_unflushed_index(segment: Segment, position: Position) -> None:
    """Drops unflushed index entries: those above the recovery point are rebuilt from the batches."""
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
