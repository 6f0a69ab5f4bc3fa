"""Iteration over the batch headers of a segment file, in blocks, without reading the records.

It handles all formats: a message of v0 or v1, plain or a wrapper, is a batch (`trimaran.log.batches.batch.old_view`).

Source: Kafka's `FileLogInputStream`. It is used for lookups, recovery, rebuilding indexes and producer state.
"""

from __future__ import annotations

from collections.abc import Iterator

from trimaran.log.batches.batch import HEADER_BYTES, MAGIC, OLD_BYTES_MIN, BatchView, header_at
from trimaran.log.disk.files import Files, OpenFile
from trimaran.wire.identity import Position

# One read yields many small batches; of a large batch only the header's block is read.
BLOCK_BYTES = 64 * 1024
FIRST_BLOCK_BYTES = 4096  # the default index interval: the usual length of a lookup
BATCH_BYTES_MAX = (1 << 31) - 1


def scan_headers(
    files: Files, file: OpenFile, start: int, end: int, *, first_block_bytes: int = BLOCK_BYTES
) -> Iterator[tuple[Position, BatchView]]:
    """Yields (position, header) of the whole batches in [start, end), which must begin at a batch.

    It ends before the first bytes that are not a whole batch; the caller compares the end reached with `end`. The
    `buffer` of the views is the block, not the batch.
    """
    position = Position(start)
    block, block_start, block_bytes = b"", Position(0), first_block_bytes
    while position < end:
        at = position - block_start
        if at + HEADER_BYTES > len(block) and block_start + len(block) < end:
            block = files.pread(file, min(block_bytes, end - position), position)
            block_start, at = position, 0
            block_bytes = min(2 * block_bytes, BLOCK_BYTES)
        batch = header_at(block, at)
        if batch is None or not is_plausible(batch) or batch.size > end - position:
            return
        yield position, batch
        position += batch.size


def is_plausible(batch: BatchView) -> bool:
    """Whether the bytes may be a header, and not a zero-filled tail or garbage."""
    return (
        0 <= batch.magic <= MAGIC
        and OLD_BYTES_MIN.get(batch.magic, HEADER_BYTES) <= batch.size <= BATCH_BYTES_MAX
        and batch.base_offset >= 0
        and batch.last_offset_delta >= 0
        and batch.count >= 0
    )


def read_batch(files: Files, file: OpenFile, position: int, size: int) -> BatchView | None:
    """Returns the whole batch at `position`; None if the file ends earlier."""
    data = files.pread(file, size, position)
    return header_at(data, 0) if len(data) >= size else None
