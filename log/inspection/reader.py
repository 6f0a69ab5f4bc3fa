"""Reading segments of directories that somebody else writes: for analyses and tools, never writing, never trusting.

Source: Kafka's `FileRecords` and its log layout; works on ours and on Apache Kafka's directories, also while they are
live: a scan ends at the last whole batch whose CRC is right. Ranges of positions inside a segment can be scanned
independently, if they begin at batches: `split_segment` gives such ranges. Messages of v0 and v1 are batches too
(`log.batches.batch.old_view`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from log.batches.batch import HEADER_BYTES, BatchView, has_valid_crc, header_at
from log.disk.files import REAL_FILES, OpenFile
from log.old_formats.old_batches import opened
from log.segments.index import OffsetIndex, ascends
from log.segments.recovery import base_offset_of
from log.segments.scan import is_plausible, scan_headers
from log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX

READ_BYTES = 1 << 20  # memory of a scan, unless one batch is larger
BATCH_BYTES_MAX = 256 << 20  # no producer is allowed more; a declared size beyond it is damage


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file as found: `size` bytes when listed; picklable."""

    path: str
    base_offset: int
    size: int


def list_segments(directory: Path) -> list[SegmentFile]:
    """The segments of a partition's directory, ascending; segments deleted meanwhile are left out."""
    found = []
    for name in REAL_FILES.list_directory(directory):
        base_offset = base_offset_of(name, LOG_SUFFIX)
        if base_offset is None:
            continue
        try:
            status = REAL_FILES.status(directory / name)
        except FileNotFoundError:
            continue
        if status.is_regular:
            found.append(SegmentFile(str(directory / name), base_offset, status.size))
    return found


def scan_batches(
    path: Path | str, start_position: int = 0, end_position: int | None = None
) -> Iterator[tuple[int, BatchView]]:
    """(position, batch) for every whole batch that begins in [start, end), the bytes of each in its `buffer`.

    `start_position` must be that of a batch. Ends early, and silently, where something else than a valid batch begins:
    a live directory's torn end. Compare with the file's size if that matters. Raises OSError.
    """
    file = REAL_FILES.open(Path(path), write=False)
    size = REAL_FILES.size(file)
    end = size if end_position is None else min(end_position, size)
    position = start_position
    while position < end:
        block = memoryview(REAL_FILES.pread(file, min(READ_BYTES, size - position), position))
        at = 0
        while position + at < end:
            size_wanted = _batch_size(block, at)
            if size_wanted is None:
                return
            if at + size_wanted > len(block):
                break
            batch = header_at(block, at)
            assert batch is not None  # it has a size
            batch.buffer = block[at : at + batch.size]
            if not has_valid_crc(batch):
                return
            yield position + at, opened(batch)
            at += batch.size
        if at:
            position += at
            continue
        large = _read_large(file, position, _batch_size(block, 0), size)
        if large is None or not has_valid_crc(large):
            return
        yield position, opened(large)
        position += large.size


def _batch_size(block: memoryview, at: int) -> int | None:
    """Bytes needed from `at` on: the batch's size, or a header's while that is cut; None when no batch begins there."""
    header = header_at(block, at)
    if header is None:
        return HEADER_BYTES
    if not is_plausible(header) or header.size > BATCH_BYTES_MAX:
        return None
    return header.size


def _read_large(
    file: OpenFile, position: int, size: int | None, file_size: int
) -> BatchView | None:
    """A batch larger than a block; None when the file does not hold it."""
    if size is None or size == HEADER_BYTES or position + size > file_size:
        return None
    data = bytearray()
    while len(data) < size:
        wanted = min(READ_BYTES * 16, size - len(data))
        piece = REAL_FILES.pread(file, wanted, position + len(data))
        if not piece:
            return None
        data += piece
    return header_at(memoryview(data), 0)


def split_segment(segment: SegmentFile, target_bytes: int) -> list[tuple[int, int]]:
    """Ranges [start, end) of positions, each beginning at a batch, of about `target_bytes`.

    Boundaries come from the `.index` when it is sound, and each is checked against the log; otherwise from the headers.
    """
    boundaries = [0]
    for position in _batch_positions(segment):
        if position - boundaries[-1] >= target_bytes:
            boundaries.append(position)
    ends = [*boundaries[1:], segment.size]
    return [(a, b) for a, b in zip(boundaries, ends, strict=True) if a < b]


def _batch_positions(segment: SegmentFile) -> Iterator[int]:
    path = Path(segment.path)
    file = REAL_FILES.open(path, write=False)
    entries = _index_entries(path)
    for relative_offset, position in entries:
        view = next(scan_headers(REAL_FILES, file, position, segment.size), None)
        if view is None or view[1].last_offset != segment.base_offset + relative_offset:
            break
        yield position
    else:
        if entries:
            return
    for position, _ in scan_headers(REAL_FILES, file, 0, segment.size):
        yield position


def _index_entries(path: Path) -> list[tuple[int, int]]:
    """The offset index's entries, without the zeros that Kafka preallocates; empty when it is missing or damaged."""
    layout = OffsetIndex.layout
    try:
        data = REAL_FILES.read_bytes(path.with_suffix(INDEX_SUFFIX)).rstrip(b"\0")
    except OSError:
        return []
    data = data.ljust(-(-len(data) // layout.size) * layout.size, b"\0")
    if not ascends(data, layout):
        return []
    return [(first, second) for first, second in layout.iter_unpack(data)]
