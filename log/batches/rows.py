"""Batches made of rows of columns in bulk, without an object for each record; see `trimaran.log.batches.row_writing`
for the loops, and `trimaran.log.batches.records.BatchBuilder` for records one by one.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import crc32c

from trimaran.log.batches.batch import (
    ATTRIBUTES_TRANSACTIONAL,
    CRC,
    CRC_POSITION,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    PREFIX_BYTES,
)
from trimaran.log.batches.row_writing import RowWriter
from trimaran.log.codecs.compression import Compression, compress
from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
)

__all__ = ["FIRST_BYTES", "BatchIdentity", "OpenBatch", "RowWriter", "SealedBatch"]

# The first size of a batch's buffer: it is doubled while it is too small, so a batch of few records takes few bytes.
FIRST_BYTES = 8192


class BatchIdentity(NamedTuple):
    """The header fields of all batches of one producer; a sequence of -1 is that of a producer without an id."""

    compression: Compression = Compression.NONE
    compression_level: int | None = None
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    is_transactional: bool = False


class SealedBatch(NamedTuple):
    """A whole batch, as Produce takes it."""

    data: bytes | bytearray | memoryview
    records: int

    @property
    def held_bytes(self) -> int:
        """Returns the memory that the batch keeps: the buffer that it was written into may be larger."""
        return memoryview(self.data.obj if isinstance(self.data, memoryview) else self.data).nbytes


class OpenBatch:
    """A batch to which rows are added, until it has about `target_bytes` uncompressed. A single row may be larger."""

    __slots__ = ("_base_timestamp", "_buffer", "_end", "_max_timestamp", "_target", "count")

    def __init__(self, target_bytes: int) -> None:
        self._target = max(target_bytes, HEADER_BYTES)
        self._buffer = bytearray(min(self._target, FIRST_BYTES))
        self._end = HEADER_BYTES
        self._base_timestamp = self._max_timestamp = 0
        self.count = 0

    @property
    def size(self) -> int:
        """Returns the bytes of the batch so far, uncompressed, with its header."""
        return self._end

    @property
    def held_bytes(self) -> int:
        """Returns the memory of the buffer."""
        return len(self._buffer)

    def add(
        self, writer: RowWriter, rows: array[int], first: int, last: int, timestamps: Sequence[int]
    ) -> tuple[int, bool]:
        """Adds `rows[first:last]`, as many as fit. Returns the first one that was not added, and whether the batch is
        full.
        """
        while first < last:
            if not self.count:
                self._base_timestamp = self._max_timestamp = timestamps[rows[first]]
            before = first
            first = writer.write(
                self._buffer,
                self._end,
                len(self._buffer),
                rows,
                first,
                last,
                self._base_timestamp,
                self.count,
            )
            if first > before:
                self._end = writer.end
                self.count += first - before
                self._max_timestamp = max(self._max_timestamp, writer.largest_timestamp)
            if first < last and not self._grow(writer.needed_bytes):
                return first, True
        return first, self._end >= self._target

    def _grow(self, needed: int) -> bool:
        """Makes room for a row; False if the batch is full without it."""
        wanted = self._end + needed
        if self.count and wanted > self._target:
            return False
        size = max(wanted, min(2 * len(self._buffer), self._target))
        self._buffer += bytes(size - len(self._buffer))
        return True

    def seal(self, producing: BatchIdentity, base_sequence: int) -> SealedBatch:
        """Returns the batch; nothing may be added any more."""
        assert self.count, "a batch without records has no offset"
        out = self._buffer
        end = self._end
        if producing.compression:
            payload = memoryview(out)[HEADER_BYTES:end]
            packed = compress(producing.compression, payload, level=producing.compression_level)
            out = bytearray(HEADER_BYTES) + packed
            end = len(out)
        HEADER.pack_into(
            out,
            0,
            0,
            end - PREFIX_BYTES,
            NO_LEADER_EPOCH,
            MAGIC,
            0,
            producing.compression | ATTRIBUTES_TRANSACTIONAL * producing.is_transactional,
            self.count - 1,
            self._base_timestamp,
            self._max_timestamp,
            producing.producer_id,
            producing.producer_epoch,
            base_sequence,
            self.count,
        )
        view = memoryview(out)[:end]
        CRC.pack_into(out, CRC_POSITION, crc32c.crc32c(view[CRC_START:]))
        return SealedBatch(view, self.count)
