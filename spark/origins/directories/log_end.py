"""Where a log ends: behind its last whole batch whose CRC is right. A torn write ends it, earlier damage does not."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView, has_valid_crc
from trimaran.log.disk.files import Files, OpenFile
from trimaran.log.inspection.reader import SegmentFile, split_segment
from trimaran.log.segments.scan import read_batch, scan_headers
from trimaran.spark.origins.damage import next_sound

TAIL_BYTES = 1 << 20  # the log's end is looked for from a place about so far before it


class LogEnd(NamedTuple):
    """`position` in the last segment; `epoch` that of the last batch, -1 without one."""

    offset: int
    position: int
    epoch: int


def find_end(segment: SegmentFile, files: Files) -> LogEnd:
    """The end of a log by its last segment. Raises OSError."""
    file = files.open(Path(segment.path), write=False)
    end = LogEnd(segment.base_offset, 0, -1)
    for start, _ in reversed(split_segment(segment, TAIL_BYTES, files)):
        found = _last_sound(files, file, start, segment)
        if found is not None:
            end = found
            break
    while end.position < segment.size:
        # Whatever lies behind is a torn write, unless a sound batch follows: then readers must meet the damage.
        behind = next_sound(files, file, end.position, segment.size, end.offset)
        found = None if behind is None else _last_sound(files, file, behind, segment)
        if found is None:
            break
        end = found
    return end


def _last_sound(files: Files, file: OpenFile, start: int, segment: SegmentFile) -> LogEnd | None:
    """Behind the last sound batch of those that lie end to end from `start` on; None when there is none."""
    batches: list[tuple[int, BatchView]] = []
    for located in scan_headers(files, file, start, segment.size):
        if batches and located[1].base_offset < batches[-1][1].next_offset:
            break  # a stale block of the disk
        batches.append(located)
    while batches:
        position, header = batches.pop()
        batch = read_batch(files, file, position, header.size)
        if batch is not None and has_valid_crc(batch):
            return LogEnd(header.next_offset, position + header.size, header.leader_epoch)
    return None
