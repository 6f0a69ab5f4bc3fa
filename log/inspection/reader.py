"""Reading of segments in directories that another process writes: for analyses and tools, which never write to these
directories and do not trust their content.

Source: Kafka's `FileRecords` and its log layout; works on our directories and on those of Apache Kafka, even while they
are live: a scan ends at the last whole batch with a valid CRC. Ranges of positions inside a segment can be scanned
independently if they begin at batches: `segment_boundaries` returns these. Messages of v0 and v1 are also batches
(`trimaran.log.batches.batch.old_view`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import HEADER_BYTES, BatchView, has_valid_crc, header_at
from trimaran.log.disk.files import REAL_FILES, Files, OpenFile
from trimaran.log.old_formats.old_batches import opened
from trimaran.log.segments.index import OffsetIndex, ascends
from trimaran.log.segments.recovery import base_offset_of
from trimaran.log.segments.scan import is_plausible, scan_headers
from trimaran.log.segments.segment import INDEX_SUFFIX, LOG_SUFFIX
from trimaran.wire.identity import Offset, Position

READ_BYTES = 1 << 20  # the memory of a scan, unless a batch is larger
FIRST_READ_BYTES = 1 << 16  # doubled by each read, since a scan for a few records ends soon
BATCH_BYTES_MAX = 256 << 20  # no producer may send a larger batch; a larger declared size is damage


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A `.log` file that had `size` bytes when it was listed; picklable."""

    path: str
    base_offset: Offset
    size: int


def list_segments(directory: Path) -> list[SegmentFile]:
    """Returns the segments of a partition's directory, ascending; segments deleted meanwhile are omitted."""
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
    path: Path | str,
    start_position: int = 0,
    end_position: int | None = None,
    *,
    files: Files = REAL_FILES,
    check_crc: bool = True,
    batch_bytes_max: int = BATCH_BYTES_MAX,
) -> Iterator[tuple[int, BatchView]]:
    """Yields (position, batch) for every whole batch that begins in [start, end), with its bytes in `buffer`.

    `start_position` must be the position of a batch. Ends early, and silently, at bytes that are not a valid batch: a
    torn end in a live directory, or a batch of more than `batch_bytes_max`. Compare with the file's size if that
    matters. Raises OSError.
    """
    file = files.open(Path(path), write=False)
    size = files.size(file)
    end = size if end_position is None else min(end_position, size)
    position, read_bytes = start_position, FIRST_READ_BYTES
    while position < end:
        wanted = min(read_bytes, max(end - position, HEADER_BYTES), size - position)
        block = memoryview(files.pread(file, wanted, position))
        read_bytes = min(2 * read_bytes, READ_BYTES)
        at, size_wanted = 0, HEADER_BYTES
        while position + at < end:
            batch = header_at(block, at)
            if batch is None:
                size_wanted = HEADER_BYTES
                break
            if not is_plausible(batch) or batch.size > batch_bytes_max:
                return
            size_wanted = batch.size
            if at + size_wanted > len(block):
                break
            batch.buffer = block[at : at + size_wanted]
            if check_crc and not has_valid_crc(batch):
                return
            yield position + at, opened(batch)
            at += size_wanted
        if at:
            position += at
            continue
        large = _read_large(files, file, position, size_wanted, size)
        if large is None or (check_crc and not has_valid_crc(large)):
            return
        yield position, opened(large)
        position += large.size


def _read_large(
    files: Files, file: OpenFile, position: int, size: int, file_size: int
) -> BatchView | None:
    """Returns a batch larger than a block; None if the file does not contain all of it."""
    if size == HEADER_BYTES or position + size > file_size:
        return None
    data = bytearray()
    while len(data) < size:
        wanted = min(READ_BYTES * 16, size - len(data))
        piece = files.pread(file, wanted, position + len(data))
        if not piece:
            return None
        data += piece
    return header_at(memoryview(data), 0)


class BatchStart(NamedTuple):
    """The position, base offset and CRC of a batch in a segment."""

    position: Position
    base_offset: Offset
    crc: int


def segment_boundaries(
    segment: SegmentFile, target_bytes: int, files: Files = REAL_FILES, start: int = 0
) -> list[BatchStart]:
    """Returns batches about `target_bytes` apart, beginning with the one at `start`; none if there is no batch.

    They come from the `.index` if it is valid, and each is checked against the log; otherwise from the headers.
    """
    found: list[BatchStart] = []
    for position, header in _headers(segment, target_bytes, files, start):
        if not found or position - found[-1].position >= target_bytes:
            found.append(BatchStart(position, header.base_offset, header.crc))
    return found


def _headers(
    segment: SegmentFile, target_bytes: int, files: Files, start: int
) -> Iterator[tuple[Position, BatchView]]:
    """Yields the header at `start`, then those in the index that are `target_bytes` apart; or all headers if the index
    is unusable.
    """
    file = files.open(Path(segment.path), write=False)
    first = next(
        scan_headers(files, file, start, segment.size, first_block_bytes=HEADER_BYTES), None
    )
    if first is None:
        return
    yield first
    last = start
    entries = _index_entries(Path(segment.path), files)
    for relative_offset, position in entries:
        if position - last < target_bytes:
            continue
        view = next(
            scan_headers(files, file, position, segment.size, first_block_bytes=HEADER_BYTES), None
        )
        if view is None or view[1].last_offset != segment.base_offset + relative_offset:
            break
        yield view
        last = position
    else:
        if entries:
            return
    yield from scan_headers(files, file, last, segment.size)


def _index_entries(path: Path, files: Files) -> list[tuple[int, int]]:
    """Returns the entries of the offset index, without the zeros that Kafka preallocates; empty if it is missing or
    damaged.
    """
    layout = OffsetIndex.layout
    try:
        data = files.read_bytes(path.with_suffix(INDEX_SUFFIX)).rstrip(b"\0")
    except OSError:
        return []
    data = data.ljust(-(-len(data) // layout.size) * layout.size, b"\0")
    if not ascends(data, layout):
        return []
    return [(first, second) for first, second in layout.iter_unpack(data)]
