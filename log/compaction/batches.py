"""Rewriting batches in compaction: fewer records, the same offsets.

Source: `MemoryRecords.filterTo`, `DefaultRecordBatch.writeEmptyHeader` of Kafka. A batch that keeps all its records is not touched. One that
loses some keeps its base and last offset, sequences, epochs and codec, so that neither offsets nor the producer's state change.
"""

from __future__ import annotations

from collections.abc import Sequence

from log.batch import (
    ATTRIBUTES_COMPRESSION,
    ATTRIBUTES_DELETE_HORIZON,
    ATTRIBUTES_LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchView,
    Buffer,
)
from log.columns import decode_columns, retain
from log.compaction.offset_map import OffsetMap
from log.compaction.retention import Fate, Retention, Verdict
from log.compression import compress
from log.records import rebuilt, records_bytes

TOMBSTONE = 2  # in the marks of `OffsetMap.mark`


def clean_batches(
    batches: Sequence[BatchView],
    verdicts: Sequence[Verdict],
    offsets: OffsetMap,
    latest_offset: int,
    retention: Retention,
) -> list[BatchView]:
    """What stays of consecutive batches; `offsets` is right up to `latest_offset`.

    Raises RemoteProtocolError when the records are not what their headers say.
    """
    marks, data = _marks(batches, verdicts, offsets, latest_offset)
    kept = []
    for batch, verdict, keep in zip(batches, verdicts, marks, strict=True):
        body = data if len(batches) == 1 else None  # a compressed batch comes alone: expanded once
        whole = _thinned(batch, verdict, keep, retention, body)
        if whole is not None:
            kept.append(whole)
    return kept


def _marks(
    batches: Sequence[BatchView],
    verdicts: Sequence[Verdict],
    offsets: OffsetMap,
    latest_offset: int,
) -> tuple[list[bytes], Buffer]:
    """For each batch a byte a record, as `OffsetMap.mark` sets them; nothing for those whose records all go. And the bodies."""
    looked_at = [
        (batch, verdict.fate)
        for batch, verdict in zip(batches, verdicts, strict=True)
        if verdict.fate is not Fate.DROP_ALL and batch.count
    ]
    columns = decode_columns([batch for batch, _ in looked_at])
    keep = bytearray(len(columns))
    if keep:
        offsets.mark(columns, bytes(fate for _, fate in looked_at), latest_offset, keep)
    marks, start = [], 0
    for batch, verdict in zip(batches, verdicts, strict=True):
        count = 0 if verdict.fate is Fate.DROP_ALL else batch.count
        marks.append(bytes(keep[start : start + count]))
        start += count
    return marks, columns.data


def _thinned(
    batch: BatchView, verdict: Verdict, keep: bytes, retention: Retention, body: Buffer | None
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
    """The header alone: where the batch was, and what its producer had sent."""
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
