"""Rewriting of batches in compaction: fewer records, the same offsets.

Source: `MemoryRecords.filterTo`, `DefaultRecordBatch.writeEmptyHeader` of Kafka. A batch that keeps all its records is
copied unchanged. A batch that loses records keeps its base and last offset, sequences, epochs and codec, so that
neither offsets nor the producer's state change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trimaran.log.batches.batch import (
    ATTRIBUTES_COMPRESSION,
    ATTRIBUTES_DELETE_HORIZON,
    ATTRIBUTES_LOG_APPEND_TIME,
    HEADER_BYTES,
    BatchView,
    Buffer,
)
from trimaran.log.batches.columns import Columns, decode_columns_within, decode_some, retain
from trimaran.log.batches.records import rebuilt, records_bytes
from trimaran.log.codecs.compression import compress
from trimaran.log.compaction.offset_map import OffsetMap
from trimaran.log.compaction.retention import Fate, Retention, RetentionDecision
from trimaran.wire.identity import NO_TIMESTAMP, Offset

# The number of records decoded in one step, each with 52 bytes of columns: a batch of twelve kilobytes may expand to
# millions of records.
RECORDS_AT_ONCE = 100_000
VALUE, TOMBSTONE = 1, 2  # values in the result of `OffsetMap.mark`


class Run(NamedTuple):
    """Consecutive batches in `block`, at `positions`; or a single batch without a block, because it is compressed or
    was converted from an old format.
    """

    batches: Sequence[BatchView]
    block: memoryview | None = None
    positions: Sequence[int] = ()

    def body(self, index: int) -> Buffer:
        """Returns the records of a batch; in a block they are not compressed. Raises RemoteProtocolError."""
        return records_bytes(self.batches[index])

    def columns(self, wanted: Sequence[int], body: Buffer | None) -> Iterator[tuple[int, Columns]]:
        """Yields the records of the batches with these indices, in chunks, each with the position in `wanted` at which
        the numbers in their `batch` column begin. `body`: the records of a single batch without a block.

        Raises RemoteProtocolError: the records contradict their headers.
        """
        batches = [self.batches[index] for index in wanted]
        if self.block is not None and sum(batch.count for batch in batches) <= RECORDS_AT_ONCE:
            starts = [self.positions[index] + HEADER_BYTES for index in wanted]
            yield 0, decode_columns_within(self.block, batches, starts)
            return
        for place, index in enumerate(wanted):
            records = self.body(index) if body is None else body
            for columns in decode_some(batches[place], records, RECORDS_AT_ONCE):
                yield place, columns

    def bytes_of(self, kept: Sequence[BatchView]) -> memoryview:
        """Returns the bytes of the batches kept by `clean_run`, in one piece, without a copy if all batches are
        kept.
        """
        if kept is self.batches and self.block is not None:
            return self.block[self.positions[0] : self.positions[-1] + kept[-1].size]
        return memoryview(b"".join(batch.buffer for batch in kept))


def clean_run(
    run: Run,
    verdicts: Sequence[RetentionDecision],
    offsets: OffsetMap,
    latest_offset: Offset,
    retention: Retention,
) -> Sequence[BatchView]:
    """Returns the batches of a run with the kept records; the original sequence of the run if all records are kept.

    `offsets` is complete up to `latest_offset`. Raises RemoteProtocolError: the records contradict their headers.
    """
    batches = run.batches
    wanted = [
        index
        for index, verdict in enumerate(verdicts)
        if verdict.fate is not Fate.DROP_ALL and batches[index].count
    ]
    body = run.body(0) if run.block is None and wanted else None  # decompressed only once
    keep = bytearray()
    fates = bytes(verdicts[index].fate for index in wanted)
    for place, columns in run.columns(wanted, body):
        marks = bytearray(len(columns))
        offsets.mark(columns, fates[place:], latest_offset, marks)
        keep += marks
    is_whole = len(wanted) == len(batches) and keep.count(VALUE) == len(keep)
    if is_whole and not any(verdict.needs_horizon for verdict in verdicts):
        return batches
    kept, start = [], 0
    for batch, verdict in zip(batches, verdicts, strict=True):
        count = 0 if verdict.fate is Fate.DROP_ALL else batch.count
        of_batch = bytes(keep[start : start + count])
        start += count
        left = _thinned(batch, verdict, of_batch, retention, body)
        if left is not None:
            kept.append(left)
    return kept


def _thinned(
    batch: BatchView,
    verdict: RetentionDecision,
    keep: bytes,
    retention: Retention,
    body: Buffer | None,
) -> BatchView | None:
    count = len(keep) - keep.count(0)
    if not count:
        return _empty(batch) if verdict.keeps_empty else None
    has_horizon = batch.delete_horizon_ms is not None
    needs_horizon = (verdict.needs_horizon or TOMBSTONE in keep) and not has_horizon
    if count == batch.count and not needs_horizon:
        return batch
    horizon = retention.delete_horizon_ms if needs_horizon else None
    kept = retain(
        records_bytes(batch) if body is None else body,
        batch.count,
        batch.base_timestamp,
        keep,
        new_base_timestamp=horizon,
    )
    append_time = batch.attributes & ATTRIBUTES_LOG_APPEND_TIME
    codec = batch.attributes & ATTRIBUTES_COMPRESSION
    return rebuilt(
        batch,
        compress(batch.compression, kept.body) if codec else kept.body,
        attributes=batch.attributes | (ATTRIBUTES_DELETE_HORIZON if needs_horizon else 0),
        base_timestamp=batch.base_timestamp if horizon is None else horizon,
        max_timestamp=batch.max_timestamp if append_time else kept.max_timestamp_ms,
        count=kept.count,
    )


def _empty(batch: BatchView) -> BatchView:
    """Returns only the header: it keeps the offsets of the batch, and the sequences of its producer."""
    if not batch.count:
        return batch
    return rebuilt(
        batch,
        b"",
        attributes=batch.attributes & ~(ATTRIBUTES_COMPRESSION | ATTRIBUTES_DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        count=0,
    )
